/** The shell of an executor, as it reports it. */
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
