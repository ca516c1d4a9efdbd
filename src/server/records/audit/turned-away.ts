import type { AuditLog } from './audit-log.ts';
import { AUDIT_TURNED_AWAY_MS, AUDIT_TURNED_AWAY_RECORDS } from './limits.ts';

/**
 * Records who was not let in. Strangers can be turned away without end and must not fill the disk with that: only so many are
 * recorded one by one within a time, and the record that follows tells how many were not.
 */
export class TurnedAway {
  readonly #log: Pick<AuditLog, 'append'>;
  readonly #now: () => number;
  #since = Number.NEGATIVE_INFINITY;
  #recorded = 0;
  #unrecorded = 0;

  constructor(log: Pick<AuditLog, 'append'>, now: () => number = () => process.uptime() * 1_000) {
    this.#log = log;
    this.#now = now;
  }

  record(status: number, reason: string, address: string | null, tokenId: string | null = null): void {
    const nowMs = this.#now();
    if (nowMs - this.#since >= AUDIT_TURNED_AWAY_MS) {
      this.#since = nowMs;
      this.#recorded = 0;
    }
    if (this.#recorded === AUDIT_TURNED_AWAY_RECORDS) {
      this.#unrecorded++;
      return;
    }
    this.#recorded++;
    this.tellUnrecorded();
    this.#append({ status, reason, address, ...(tokenId !== null && { tokenId }) });
  }

  /** To be called at the end as well, when nobody may follow. */
  tellUnrecorded(): void {
    if (this.#unrecorded > 0) this.#append({ unrecorded: this.#unrecorded });
    this.#unrecorded = 0;
  }

  #append(facts: Readonly<Record<string, unknown>>): void {
    this.#log.append({ event: 'turnedAway', ...facts }, 'news').catch(() => {});
  }
}
