import type { sleep } from '../../base/abort.ts';
import type { Backoff } from '../../base/backoff.ts';
import { uptimeMs } from '../../base/uptime.ts';
import { CloseCode } from '../../transport/transport.ts';
import { STABLE_CONNECTION_MS } from '../limits.ts';
import type { NoisePublicKey } from '../noise/public-key.ts';
import { type Bundle, RegistryError } from '../registry-client.ts';
import type { FramePipe } from '../stream/frame-pipe.ts';
import type { HarnessLink } from '../stream/harness-link.ts';

/** Opens another connection to the executor. */
interface PipeOpener {
  /** Asks the registry how to connect. */
  bundle(signal: AbortSignal): Promise<Bundle>;
  openPipe(bundle: Bundle, signal: AbortSignal): Promise<FramePipe>;
  /** Waits between two attempts. */
  readonly sleep: typeof sleep;
}

/** Reconnects one stream to its executor until the stream ends. */
export class PipeReconnector {
  readonly #opener: PipeOpener;
  readonly #executorKey: NoisePublicKey;
  readonly #backoff: Backoff;
  readonly #ended = new AbortController();
  #attachedAtMs = uptimeMs();
  /** Whether the next attempt skips the backoff: once after a stable connection. Connections that fail early always back off. */
  #skipDelay = true;

  constructor(opener: PipeOpener, executorKey: NoisePublicKey, backoff: Backoff) {
    this.#opener = opener;
    this.#executorKey = executorKey;
    this.#backoff = backoff;
  }

  /** Stops reconnecting because the stream has ended. */
  end(): void {
    this.#ended.abort();
  }

  /**
   * Opens another pipe and attaches it to the stream. Aborts the stream when another executor has replaced the first one, or when the
   * registry refuses permanently.
   */
  async pipeLost(link: HarnessLink): Promise<void> {
    const { signal } = this.#ended;
    if (uptimeMs() - this.#attachedAtMs >= STABLE_CONNECTION_MS) {
      this.#backoff.reset();
      this.#skipDelay = true;
    }
    while (!signal.aborted) {
      if (!this.#skipDelay) await this.#opener.sleep(this.#backoff.next(), signal);
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
