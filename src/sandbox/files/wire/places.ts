import { FileError } from '../../../files/errors.ts';
import { CONTENT_AT_ONCE_BYTES, MAX_QUEUED_OPERATIONS, OPERATIONS_AT_ONCE } from '../limits.ts';

/** Places for operations at a helper, by number and by the bytes that they bring and ask for. Who finds none waits, in the order of coming. */
export class Places {
  readonly #waiting = new Set<Waiter>();
  #taken = 0;
  #bytes = 0;
  #refusal: Error | null = null;

  /** Resolves when there is a place. Rejects, and takes none, when the signal is aborted before, or when too many wait. */
  take(bytes: number, signal?: AbortSignal): Promise<void> {
    if (this.#refusal !== null) return Promise.reject(this.#refusal);
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#waiting.size === 0 && this.#fits(bytes)) {
      this.#enter(bytes);
      return Promise.resolve();
    }
    if (this.#waiting.size >= MAX_QUEUED_OPERATIONS) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        bytes,
        proceed: () => {
          signal?.removeEventListener('abort', leave);
          resolve();
        },
        refuse: reject,
      };
      const leave = () => {
        this.#waiting.delete(waiter);
        reject(signal!.reason);
        this.#fill();
      };
      this.#waiting.add(waiter);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  release(bytes: number): void {
    this.#taken--;
    this.#bytes -= bytes;
    this.#fill();
  }

  /** Nobody gets a place any more: those who wait, and those who come later, fail with `error`. */
  refuseAll(error: Error): void {
    this.#refusal = error;
    for (const waiter of this.#waiting) waiter.refuse(error);
    this.#waiting.clear();
  }

  #fill(): void {
    for (const waiter of this.#waiting) {
      if (!this.#fits(waiter.bytes)) return;
      this.#waiting.delete(waiter);
      this.#enter(waiter.bytes);
      waiter.proceed();
    }
  }

  #enter(bytes: number): void {
    this.#taken++;
    this.#bytes += bytes;
  }

  /** One that asks for more than there is gets it when it is alone. */
  #fits(bytes: number): boolean {
    if (this.#taken === 0) return true;
    return this.#taken < OPERATIONS_AT_ONCE && this.#bytes + bytes <= CONTENT_AT_ONCE_BYTES;
  }
}

interface Waiter {
  readonly bytes: number;
  proceed(): void;
  refuse(error: unknown): void;
}

function tooMany(): FileError {
  return new FileError(
    'failed',
    `more than ${MAX_QUEUED_OPERATIONS} file operations wait for the fs sandbox helper; send fewer at a time`,
  );
}
