import { parentPort, workerData } from 'node:worker_threads';
import { FileError } from '../errors.ts';
import { javaScriptPattern } from './pattern.ts';
import type { ThreadJob, ThreadMessage } from './thread-messages.ts';
import { searchTree } from './tree.ts';

// The thread of one search by the builtin engine. It exits at the end of the search.
const { query, isDirectory } = workerData as ThreadJob;
const send = (message: ThreadMessage) => parentPort?.postMessage(message);

try {
  // Compiling a pattern may take seconds, so the event loop does not.
  searchTree(query, isDirectory, javaScriptPattern(query), {
    found: (matches) => send({ kind: 'found', matches }),
    tooLarge: (path) => send({ kind: 'tooLarge', path }),
    unreadable: () => send({ kind: 'unreadable' }),
  });
  send({ kind: 'finished' });
} catch (error) {
  if (!(error instanceof FileError)) throw error;
  send({ kind: 'failed', errorKind: error.kind, message: error.message, errno: error.errno });
}
