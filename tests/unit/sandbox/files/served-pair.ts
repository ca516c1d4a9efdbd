import { PassThrough } from 'node:stream';
import { FileError } from '../../../../src/files/errors.ts';
import type { FileSystem } from '../../../../src/files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { ContentSearch } from '../../../../src/files/search/content-search.ts';
import { serveFileSystem } from '../../../../src/sandbox/files/inside/serve-file-system.ts';
import { HelperChannel } from '../../../../src/sandbox/files/wire/helper-channel.ts';
import { HelperFileSystem } from '../../../../src/sandbox/files/wire/helper-file-system.ts';
import type { HelperTask, ServedFiles } from '../../../../src/sandbox/files/wire/operations.ts';

/** Both ends of a helper in one process. */
export interface ServedPair {
  readonly files: FileSystem;
  readonly search: HelperFileSystem['search'];
  /** The session of each search, as the helper received it. */
  readonly searchSessions: readonly number[];
  readonly channel: HelperChannel;
  /** The pipes from and to the server. */
  readonly requests: PassThrough;
  readonly answers: PassThrough;
  /** How often the channel asked to kill the helper. */
  timesBroken(): number;
  /** Resolves when the helper has ended. */
  readonly served: Promise<void>;
  /** Ends the helper as its death would. */
  die(): void;
}

export async function serve(fileSystem: FileSystem = LOCAL_FILE_SYSTEM): Promise<ServedPair> {
  const requests = new PassThrough();
  const answers = new PassThrough();
  const engines = new ContentSearch('');
  const searchSessions: number[] = [];
  const search: ServedFiles['search'] = (request, signal, session) => {
    searchSessions.push(session);
    return engines.search(request, signal);
  };
  const served = serveFileSystem(
    async () => ({ fileSystem, search }),
    (onBytes) => requests.on('data', onBytes),
    answers,
  );
  let broken = 0;
  const channel = new HelperChannel(
    { write: (bytes, done) => void requests.write(bytes, (error) => done(error ?? null)) },
    () => {},
    () => broken++,
  );
  answers.on('data', (bytes: Buffer) => channel.receive(bytes));
  const task: HelperTask = { absent: [], hidden: [], added: [] };
  await channel.request(['prepare'], { content: Buffer.from(JSON.stringify(task)) });
  const die = () => {
    requests.destroy();
    channel.fail(new FileError('failed', 'fs sandbox helper died'));
  };
  const helper = new HelperFileSystem(channel);
  return {
    files: helper.fileSystem,
    search: (...args) => helper.search(...args),
    searchSessions,
    channel,
    requests,
    answers,
    timesBroken: () => broken,
    served,
    die,
  };
}
