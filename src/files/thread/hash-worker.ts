import { createHash, type Hash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import type { HashAnswer, HashRequest } from './hash-messages.ts';

// The program of the thread that hashes. It is terminated when it is no longer needed.
const port = parentPort!;
const hashes = new Map<number, Hash>();

port.on('message', (request: HashRequest) => {
  const { id } = request;
  if (request.kind === 'drop') {
    hashes.delete(id);
    return;
  }
  const hash = hashes.get(id) ?? createHash('sha256');
  if (request.kind === 'update') {
    const { buffer, length } = request;
    hashes.set(id, hash.update(new Uint8Array(buffer, 0, length)));
    answer({ id, kind: 'updated', buffer }, [buffer]);
  } else {
    hashes.delete(id);
    answer({ id, kind: 'digest', sha256: hash.digest('hex') });
  }
});

function answer(message: HashAnswer, transferred: ArrayBuffer[] = []): void {
  port.postMessage(message, transferred);
}
