import type { FileChange, FileChanges, FileWatch } from '../backend.ts';
import type { ClientError } from '../errors.ts';
import { WATCH_QUEUE_CHANGES } from '../limits.ts';

/** A watch whose changes wait here for the consumer. When too many wait they are dropped, and overflow is told in their place. */
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

  /** Nothing more can be told. The consumer gets what waits, then the error. Ends the source at once. */
  fail(error: ClientError): void {
    if (this.#ended) return;
    this.#failure = error;
    this.#ended = true;
    this.#wake();
    this.#closing = this.#stop();
  }

  /** Ends the iteration at once, and the source with it. */
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
        while (!this.#ended && !this.#hasNews) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
        if (this.#hasNews) yield this.#take();
        else if (this.#failure !== null) throw this.#failure;
        else return;
      }
    } finally {
      await this.close();
    }
  }

  get #hasNews(): boolean {
    return this.#changes.length > 0 || this.#overflow;
  }

  #take(): FileChanges {
    const news = { changes: this.#changes, overflow: this.#overflow };
    this.#changes = [];
    this.#overflow = false;
    return news;
  }
}
