import { createHash, timingSafeEqual } from 'node:crypto';
import { FailureDelay } from './failure-delay.ts';

/** Why a request for metrics is refused. */
interface MetricsRefusal {
  readonly refusal: string;
  /** How long the refusal is delayed, to slow down guessing. */
  readonly delayMs: number;
}

/** The token that `/metrics` needs where it has one of its own. Only its digest is kept. */
export class MetricsToken {
  readonly #digest: Buffer;
  readonly #delay = new FailureDelay();

  constructor(token: string) {
    this.#digest = sha256(token);
  }

  /** Checks the Authorization header of a request. Returns null when it has the token. Compares digests in constant time. */
  check(authorization: string | undefined, address: string | null): MetricsRefusal | null {
    if (authorization === undefined) return { refusal: 'missing bearer token of /metrics', delayMs: 0 };
    const token = /^bearer[ \t]+([\x20-\x7e\t]*)$/i.exec(authorization)?.[1]?.trim() ?? '';
    if (timingSafeEqual(sha256(token), this.#digest)) return null;
    return { refusal: 'invalid bearer token of /metrics', delayMs: this.#delay.failed(address) };
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
