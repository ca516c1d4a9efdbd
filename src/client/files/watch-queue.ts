import type { FileChange, FileChanges, FileWatch } from '../backend.ts';
import type { ClientError } from '../errors.ts';
import { WATCH_QUEUE_CHANGES } from '../limits.ts';

/**
 * A watch that queues its changes for the consumer. When the queue is full, its changes are dropped and reported as
 * overflow.
 */
export class WatchQueue implements FileWatch {
  readonly #stop: () => Promise<void>;
  #changes: FileChange[] = [];
  #overflow = false;
  #ended = false;
  #failure: ClientError | null = null;
  #closing: Promise<void> | null = null;
  #wake: () => void = () => {};

  /** @param stop Ends the source; called once, by the first {@link close} or {@link fail}. */
  constructor(stop: () => Promise<void>) {
    this.#stop = stop;
  }

  push({ changes, overflow }: FileChanges): void {
    if (this.#ended) return;
    this.#overflow ||= overflow;
    if (this.#changes.length + changes.length > WATCH_QUEUE_CHANGES) {
      this.#changes = [];
      this.#overflow = true;
    } else {
      this.#changes.push(...changes);
    }
    this.#wake();
  }

  /** Ends the watch with an error. The consumer first gets the queued changes. Stops the source immediately. */
  fail(error: ClientError): void {
    if (this.#ended) return;
    this.#failure = error;
    this.#ended = true;
    this.#wake();
    this.#closing = this.#stop();
  }

  /** Ends the iteration immediately and stops the source. */
  close(): Promise<void> {
    this.#ended = true;
    this.#failure = null;
    this.#changes = [];
    this.#overflow = false;
    this.#wake();
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FileChanges, void> {
    try {
      for (;;) {
        while (!this.#ended && !this.#hasChanges) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
        if (this.#hasChanges) yield this.#take();
        else if (this.#failure !== null) throw this.#failure;
        else return;
      }
    } finally {
      await this.close();
    }
  }

  get #hasChanges(): boolean {
    return this.#changes.length > 0 || this.#overflow;
  }

  #take(): FileChanges {
    const taken = { changes: this.#changes, overflow: this.#overflow };
    this.#changes = [];
    this.#overflow = false;
    return taken;
  }
}
