import { sleep } from '../../base/abort.ts';
import type { Backoff } from '../../base/backoff.ts';
import { uptimeMs } from '../../base/uptime.ts';
import { CloseCode } from '../../transport/transport.ts';
import { STABLE_CONNECTION_MS } from '../limits.ts';
import type { NoisePublicKey } from '../noise/public-key.ts';
import { type Bundle, RegistryError } from '../registry-client.ts';
import type { FramePipe } from '../stream/frame-pipe.ts';
import type { HarnessLink } from '../stream/harness-link.ts';

/** How another way to the executor is found. */
export interface PipeOpener {
  bundle(signal: AbortSignal): Promise<Bundle>;
  openPipe(bundle: Bundle, signal: AbortSignal): Promise<FramePipe>;
}

/** Finds other pipes for one stream, for as long as it lives. */
export class PipeReconnector {
  readonly #opener: PipeOpener;
  readonly #executorKey: NoisePublicKey;
  readonly #backoff: Backoff;
  readonly #ended = new AbortController();
  #attachedAtMs = uptimeMs();
  /** Whether the next pipe is looked for without a pause: once after a good one, so that no loop of lost pipes runs free. */
  #skipDelay = true;

  constructor(opener: PipeOpener, executorKey: NoisePublicKey, backoff: Backoff) {
    this.#opener = opener;
    this.#executorKey = executorKey;
    this.#backoff = backoff;
  }

  /** The stream has ended: nothing more is looked for. */
  end(): void {
    this.#ended.abort();
  }

  /**
   * Finds another pipe, for as long as the stream waits for one. When another executor has taken the place of the first, or the
   * registry says no, the stream ends, and its owner sees to the rest.
   */
  async pipeLost(link: HarnessLink): Promise<void> {
    const { signal } = this.#ended;
    if (uptimeMs() - this.#attachedAtMs >= STABLE_CONNECTION_MS) {
      this.#backoff.reset();
      this.#skipDelay = true;
    }
    while (!signal.aborted) {
      if (!this.#skipDelay) await sleep(this.#backoff.next(), signal);
      this.#skipDelay = false;
      try {
        const bundle = await this.#opener.bundle(signal);
        if (!bundle.executorKey.equals(this.#executorKey)) {
          link.abort({ code: CloseCode.abnormal, reason: 'another executor has taken over' });
          return;
        }
        const pipe = await this.#opener.openPipe(bundle, signal);
        this.#attachedAtMs = uptimeMs();
        link.attach(pipe);
        return;
      } catch (error) {
        if (!signal.aborted && error instanceof RegistryError && !error.retryable) {
          link.abort({ code: CloseCode.abnormal, reason: error.message });
        }
      }
    }
  }
}
