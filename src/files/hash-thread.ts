import { Worker } from 'node:worker_threads';
import { threadProgram } from '../base/embedded-files.ts';
import { FileError } from './errors.ts';
import { HASH_PIECE_BYTES, HASH_THREAD_HEAP_MB, HASH_THREAD_IDLE_MS } from './limits.ts';
import type { ContentHasher } from './local/hash-file.ts';
import type { HashAnswer, HashRequest } from './thread/hash-messages.ts';

/** Starts the thread that hashes. */
function startThread(): Worker {
  const { program, ...how } = threadProgram('files/thread/hash-worker.js', import.meta.url);
  return new Worker(program, {
    ...how,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HASH_THREAD_HEAP_MB },
  });
}

/**
 * A thread that hashes pieces of files, for all connections. It takes one piece of each file in turn, so no client waits for the large
 * file of another. The thread never touches a file, so a dead mount does not block it. It starts with the first hash, ends some seconds
 * after the last one and does not keep the process alive.
 */
export class HashThread {
  readonly #start: () => Worker;
  readonly #idleMs: number;
  #worker: Worker | null = null;
  #idle: NodeJS.Timeout | undefined;
  #nextId = 0;
  /** The unfinished hashes, with the function that receives the answer to the last message of each. */
  readonly #hashes = new Map<number, (answer: HashAnswer | null) => void>();
  #crashed = false;

  constructor(start: () => Worker = startThread, idleMs = HASH_THREAD_IDLE_MS) {
    this.#start = start;
    this.#idleMs = idleMs;
  }

  /** Begins the hash of a file. Null if the thread cannot run, or crashed before. */
  begin(): ContentHasher | null {
    const worker = this.#crashed ? null : (this.#worker ?? this.#open());
    if (worker === null) return null;
    const id = this.#nextId++;
    clearTimeout(this.#idle);
    this.#hashes.set(id, () => {});
    return {
      pieceBytes: HASH_PIECE_BYTES,
      update: async (piece, length) => {
        const { buffer } = piece;
        const answer = await this.#ask(id, { id, kind: 'update', buffer, length }, [buffer]);
        return Buffer.from((answer as Extract<HashAnswer, { kind: 'updated' }>).buffer);
      },
      digest: async () => {
        const answer = await this.#ask(id, { id, kind: 'digest' });
        this.#end(id);
        return (answer as Extract<HashAnswer, { kind: 'digest' }>).sha256;
      },
      drop: () => {
        this.#worker?.postMessage({ id, kind: 'drop' } satisfies HashRequest);
        this.#end(id);
      },
    };
  }

  #ask(id: number, request: HashRequest, transferred: ArrayBuffer[] = []): Promise<HashAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#crashed) {
        reject(crashedError());
        return;
      }
      this.#hashes.set(id, (answer) => (answer === null ? reject(crashedError()) : resolve(answer)));
      this.#worker?.postMessage(request, transferred);
    });
  }

  #end(id: number): void {
    this.#hashes.delete(id);
    if (this.#hashes.size > 0) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#close(), this.#idleMs).unref();
  }

  #open(): Worker | null {
    try {
      const worker = this.#start();
      worker.on('message', (answer: HashAnswer) => this.#hashes.get(answer.id)?.(answer));
      // The 'exit' event follows and is handled there.
      worker.on('error', () => {});
      worker.once('exit', () => {
        if (this.#worker === worker) this.#crash();
      });
      // After the listeners, because adding a 'message' listener calls ref().
      worker.unref();
      this.#worker = worker;
      return worker;
    } catch {
      this.#crashed = true;
      return null;
    }
  }

  #crash(): void {
    this.#crashed = true;
    this.#worker = null;
    for (const settle of [...this.#hashes.values()]) settle(null);
  }

  #close(): void {
    const worker = this.#worker;
    this.#worker = null;
    void worker?.terminate();
  }
}

/** The thread of this process. */
export const HASH_THREAD = new HashThread();

function crashedError(): FileError {
  return new FileError('failed', 'the thread that computes hashes has ended; repeat the request');
}
