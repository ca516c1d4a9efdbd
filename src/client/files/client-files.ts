import type { ExecBackend } from '../backend.ts';
import type { FilesSource } from './files.ts';
import { type FileSystemClient, RemoteFileSystem } from './remote-file-system.ts';

/** The files of a client. */
export function filesOf(client: FileSystemClient & { readonly backend: ExecBackend }): FilesSource {
  return filesOver(new RemoteFileSystem(client), client.backend);
}

/** Files whose relative paths are relative to the directory in which `backend` starts programs. */
export function filesOver(fileSystem: FilesSource['fileSystem'], backend: ExecBackend): FilesSource {
  return { fileSystem, defaultDirectory: async (options) => (await backend.defaultCwd?.(options)) ?? null };
}
