import type { AuditLog } from './audit-log.ts';
import {
  REJECTED_CONNECTIONS_PER_SOURCE,
  REJECTED_CONNECTIONS_PER_WINDOW,
  REJECTED_CONNECTIONS_WINDOW_MS,
} from './limits.ts';

/**
 * Records rejected connections. Unauthenticated clients must not be able to fill the disk: only a limited number per minute is
 * recorded individually, and of one token or address only a part of it. The next record states how many were omitted.
 */
export class RejectedConnections {
  readonly #log: Pick<AuditLog, 'append'>;
  readonly #now: () => number;
  #windowStartMs = Number.NEGATIVE_INFINITY;
  #recorded = 0;
  readonly #recordedOf = new Map<string | null, number>();
  #unrecorded = 0;

  constructor(log: Pick<AuditLog, 'append'>, now: () => number = () => process.uptime() * 1_000) {
    this.#log = log;
    this.#now = now;
  }

  record(status: number, reason: string, address: string | null, tokenId: string | null = null): void {
    const nowMs = this.#now();
    if (nowMs - this.#windowStartMs >= REJECTED_CONNECTIONS_WINDOW_MS) {
      this.#windowStartMs = nowMs;
      this.#recorded = 0;
      this.#recordedOf.clear();
    }
    const source = tokenId ?? address;
    const recordedOf = this.#recordedOf.get(source) ?? 0;
    if (
      this.#recorded === REJECTED_CONNECTIONS_PER_WINDOW ||
      recordedOf === REJECTED_CONNECTIONS_PER_SOURCE
    ) {
      this.#unrecorded++;
      return;
    }
    this.#recorded++;
    this.#recordedOf.set(source, recordedOf + 1);
    this.flushUnrecorded();
    this.#append({ status, reason, address, ...(tokenId !== null && { tokenId }) });
  }

  /** Records how many rejections were omitted. Call it at shutdown too, when no further record may follow. */
  flushUnrecorded(): void {
    if (this.#unrecorded > 0) this.#append({ unrecorded: this.#unrecorded });
    this.#unrecorded = 0;
  }

  #append(facts: Readonly<Record<string, unknown>>): void {
    this.#log.append({ event: 'connectionRejected', ...facts }, 'low').catch(() => {});
  }
}
