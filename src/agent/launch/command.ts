/** The shell of an environment, as the executor reports it. */
export interface Shell {
  readonly name: string;
  readonly path: string;
}

type ShellKind = 'bash' | 'zsh' | 'sh' | 'powershell' | 'cmd' | (string & {});

/** Returns the kind of shell for a name or a path. */
export function shellKind(nameOrPath: string): ShellKind {
  const name = nameOrPath
    .split(/[/\\]/)
    .at(-1)!
    .toLowerCase()
    .replace(/\.exe$/, '');
  return name === 'pwsh' ? 'powershell' : name;
}

/** Returns the argv that runs a command in a shell. A login shell reads the user's profile first. */
export function shellCommand({ name, path }: Shell, cmd: string, login: boolean): string[] {
  switch (shellKind(name)) {
    case 'powershell':
      return login ? [path, '-Command', cmd] : [path, '-NoProfile', '-Command', cmd];
    case 'cmd':
      return [path, '/c', cmd];
    default:
      return [path, login ? '-lc' : '-c', cmd];
  }
}

/**
 * Resolves a folder of a model against a base folder and returns its `file:` URI. Dot segments are resolved lexically. A base with a
 * drive letter means Windows paths. Throws a `TypeError` when the base is not a `file:` URI or the folder name is invalid.
 */
export function joinFolder(baseUri: string, folder: string): string {
  const base = new URL(baseUri);
  if (base.protocol !== 'file:') throw new TypeError(`'${baseUri}' is not a file: URI`);
  if (folder === '') return baseUri;
  if (folder.includes('\0')) throw new TypeError('the name of a folder cannot contain NUL');
  const drive = /^\/([A-Za-z]:)(?=\/|$)/.exec(base.pathname)?.[1];
  const name = drive === undefined ? folder : folder.replaceAll('\\', '/');
  const ownDrive = drive === undefined ? undefined : /^([A-Za-z]:)(?=\/|$)/.exec(name)?.[1];
  const segments = base.pathname.split('/');
  const root = drive === undefined ? [] : [ownDrive ?? drive];
  const start =
    name.startsWith('/') || ownDrive !== undefined ? root : segments.filter((part) => part !== '');
  const named = ownDrive === undefined ? name : name.slice(ownDrive.length);
  const path = [...start];
  for (const part of named.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') path.splice(Math.max(path.length - 1, root.length));
    else path.push(escaped(part));
  }
  return `file://${base.host}/${path.join('/')}`;
}

function escaped(segment: string): string {
  try {
    return encodeURIComponent(segment);
  } catch {
    throw new TypeError('the name of a folder must be valid text');
  }
}
