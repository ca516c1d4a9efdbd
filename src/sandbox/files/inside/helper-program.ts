import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { Owner } from '../../../base/fair-shares.ts';
import { LOCAL_FILE_SYSTEM } from '../../../files/local/local-file-system.ts';
import { isWithin } from '../../../files/native-path.ts';
import { ContentSearch } from '../../../files/search/content-search.ts';
import { HELPER_THREADS, INPUT_READ_BYTES } from '../limits.ts';
import type { HelperTask, ServedFiles } from '../wire/operations.ts';
import { AbsentPaths } from './absent-paths.ts';
import { AddedDirectories } from './added-directories.ts';
import { emulateMounts } from './emulated-mounts.ts';
import { sealOwnPipes, withoutPipes } from './own-pipes.ts';
import { serveFileSystem } from './serve-file-system.ts';

// The program of a file helper. It runs in a sandbox, performs the requests from its stdin and exits at the end of its input.

process.env.UV_THREADPOOL_SIZE = String(HELPER_THREADS);
sealOwnPipes();
void serveFileSystem(prepareFiles, openInput, new Socket({ fd: 1, readable: false }));

/** Reads all input into one reused buffer. */
function openInput(onBytes: (bytes: Buffer) => void): Socket {
  const onread: OnReadOpts = {
    buffer: Buffer.allocUnsafeSlow(INPUT_READ_BYTES),
    callback: (length, bytes) => {
      onBytes(Buffer.from(bytes.buffer, bytes.byteOffset, length));
      return true;
    },
  };
  // Node's type declarations omit `onread` where its constructor accepts it.
  const options: SocketConstructorOpts & { onread: OnReadOpts } = { fd: 0, writable: false, onread };
  const input = new Socket(options);
  input.resume();
  return input;
}

async function prepareFiles({ absent, hidden, added }: HelperTask): Promise<ServedFiles> {
  // A sandbox may hide all programs, so no external search engine is looked up.
  const engines = new ContentSearch('');
  const owners = new Map<number, Owner>();
  let hasThreads = false;
  const mounts = {
    absent: await AbsentPaths.of(absent),
    hidden,
    added: await AddedDirectories.of(added),
  };
  return {
    fileSystem: emulateMounts(
      withoutPipes(LOCAL_FILE_SYSTEM, () => hasThreads),
      mounts,
    ),
    search: async (request, signal, session) => {
      const owner = owners.get(session) ?? {};
      owners.set(session, owner);
      hasThreads = true;
      const result = await engines.search(request, signal, owner);
      const isVisible = ({ path }: { path: typeof request.path }) =>
        !hidden.some((directory) => isWithin(path, directory));
      return { ...result, matches: result.matches.filter(isVisible) };
    },
  };
}
