/** The last part of a path. */
export function baseName(path: string): string {
  return path.replace(/\/+$/, '').split('/').at(-1) || '/';
}

export function parentOf(path: string): string {
  const parts = path.replace(/\/+$/, '').split('/');
  return parts.slice(0, -1).join('/') || '/';
}

export function joinPath(directory: string, name: string): string {
  return directory.endsWith('/') ? `${directory}${name}` : `${directory}/${name}`;
}

/** Why a name cannot be that of a file in a directory; null if it can. */
export function nameProblem(name: string): string | null {
  if (name === '' || name === '.' || name === '..') return 'A file needs a name.';
  if (/[/\\\0]/.test(name)) return `The name "${name}" contains a slash or a NUL character.`;
  return new TextEncoder().encode(name).length > 255 ? 'The name is too long.' : null;
}
