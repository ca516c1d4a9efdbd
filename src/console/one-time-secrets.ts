import { createHash, randomBytes } from 'node:crypto';
import { largestShare } from './largest-share.ts';
import { SECRET_BYTES } from './limits.ts';

interface Entry<Value> {
  readonly value: Value;
  readonly timer: NodeJS.Timeout;
}

/** How long secrets are valid, how many there may be, whose they are, and what happens with the value of one that was not used. */
interface OneTimeOptions<Value> {
  readonly ttlMs: number;
  readonly max: number;
  ownerOf(value: Value): string;
  unused?(value: Value): void;
}

/**
 * Secrets that can be exchanged once for a value, for a short time. When there are too many, the oldest one of the owner that has most
 * becomes invalid.
 */
export class OneTimeSecrets<Value> {
  readonly #options: OneTimeOptions<Value>;
  /** By the hash of the secret, so that the time of a lookup says nothing about it. The oldest first. */
  readonly #entries = new Map<string, Entry<Value>>();

  constructor(options: OneTimeOptions<Value>) {
    this.#options = options;
  }

  /** Creates a secret for the value. */
  issue(value: Value): string {
    const { max, ownerOf } = this.#options;
    if (this.#entries.size >= max) {
      const [oldest] = largestShare(this.#entries, ([, entry]) => ownerOf(entry.value));
      this.#drop(oldest![0]);
    }
    const secret = newSecret();
    const key = hash(secret);
    const timer = setTimeout(() => this.#drop(key), this.#options.ttlMs);
    timer.unref();
    this.#entries.set(key, { value, timer });
    return secret;
  }

  /** Returns the value and invalidates the secret. Null for one that is unknown, used or expired. */
  redeem(secret: string): Value | null {
    const key = hash(secret);
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    this.#entries.delete(key);
    clearTimeout(entry.timer);
    return entry.value;
  }

  /** Invalidates the secrets whose value matches. */
  revoke(matches: (value: Value) => boolean): void {
    for (const [key, { value }] of [...this.#entries]) if (matches(value)) this.#drop(key);
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    clearTimeout(entry.timer);
    this.#options.unused?.(entry.value);
  }
}

/** A secret that fits into URLs, cookies and websocket subprotocols. */
export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

function hash(secret: string): string {
  return createHash('sha256').update(secret).digest('base64');
}
