import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CommandUser } from './private-server.ts';

/** A new directory below the home of a user. */
export function newFolder(user: CommandUser): string {
  const folder = join(user.workspace.path, `folder${++folders}`);
  mkdirSync(folder);
  return folder;
}

let folders = 0;

/** A source, and a destination that does not exist. */
export function newSyncFolders(user: CommandUser): { readonly source: string; readonly destination: string } {
  const folder = newFolder(user);
  const source = join(folder, 'source');
  mkdirSync(source);
  return { source, destination: join(folder, 'destination') };
}

/** Writes files below a directory. */
export function writeFiles(root: string, files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
}
