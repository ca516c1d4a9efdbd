import { fchmodSync, fstatSync } from 'node:fs';
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { LOCAL_FILE_SYSTEM } from '../../../files/local/local-file-system.ts';
import { isWithin } from '../../../files/native-path.ts';
import { ContentSearch } from '../../../files/search/content-search.ts';
import { HELPER_THREADS, INPUT_READ_BYTES } from '../limits.ts';
import type { HelperTask, ServedFiles } from '../wire/operations.ts';
import { AbsentPaths } from './absent-paths.ts';
import { FleetingPlaces } from './fleeting-places.ts';
import { guardFileSystem } from './guarded-file-system.ts';
import { serveFileSystem } from './serve-file-system.ts';

// The program that runs in a sandbox and does there what it is asked through its stdin. It ends with its input.

process.env.UV_THREADPOOL_SIZE = String(HELPER_THREADS);
for (const descriptor of [0, 1, 2]) seal(descriptor);
void serveFileSystem(prepareFiles, openInput, new Socket({ fd: 1, readable: false }));

/** Everything is read into the same memory. */
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

/** Nobody can open a pipe of this process again through /proc, which would let a client forge answers to others. */
function seal(descriptor: number): void {
  if (fstatSync(descriptor).isFIFO()) fchmodSync(descriptor, 0);
}

async function prepareFiles({ absent, hidden, fleeting }: HelperTask): Promise<ServedFiles> {
  // Other programs are not at hand in a sandbox, so there is nowhere to look for a search engine.
  const engines = new ContentSearch('');
  const guard = {
    absent: await AbsentPaths.of(absent),
    hidden,
    fleeting: await FleetingPlaces.of(fleeting),
  };
  return {
    fileSystem: guardFileSystem(LOCAL_FILE_SYSTEM, guard),
    search: async (request, signal) => {
      const result = await engines.search(request, signal);
      const isVisible = ({ path }: { path: typeof request.path }) =>
        !hidden.some((directory) => isWithin(path, directory));
      return { ...result, matches: result.matches.filter(isVisible) };
    },
  };
}
