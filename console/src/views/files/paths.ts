import { printableName } from '../../base/format.ts';

/** The last part of a path. */
export function baseName(path: string): string {
  return path.replace(/\/+$/, '').split('/').at(-1) || '/';
}

export function parentOf(path: string): string {
  const parts = path.replace(/\/+$/, '').split('/');
  return parts.slice(0, -1).join('/') || '/';
}

/** The path of a name in a directory, which is a path or a `file:` URI. */
export function joinPath(directory: string, name: string): string {
  const part = directory.startsWith('file:') ? encodeURIComponent(name) : name;
  return directory.endsWith('/') ? `${directory}${part}` : `${directory}/${part}`;
}

/** Whether a file, which is a path or a `file:` URI, is in a directory or in one below it. */
export function isBelow(path: string, directory: string): boolean {
  const prefix = path.startsWith('file:')
    ? `file://${directory.split('/').map(encodeURIComponent).join('/')}`
    : directory;
  return path.startsWith(prefix.replace(/\/*$/, '/')) && !path.split('/').includes('..');
}

const MAX_NAME_BYTES = 255;

/** Why a new file or folder cannot have this name; null if it can. */
export function nameProblem(name: string): string | null {
  if (name === '') return 'The name is empty.';
  if (name === '.' || name === '..') return `The name ${name} stands for a folder.`;
  if (/[/\\]/.test(name)) return 'The name contains a slash or a backslash.';
  if (printableName(name) !== name) {
    return 'The name contains a character that cannot be seen or that changes the direction of text.';
  }
  const bytes = new TextEncoder().encode(name).length;
  return bytes > MAX_NAME_BYTES
    ? `The name has ${bytes} bytes; at most ${MAX_NAME_BYTES} are possible.`
    : null;
}
