import type { AuditLog } from '../../../audit/audit-log.ts';
import { RejectedConnections } from '../../../audit/rejected-connections.ts';
import type { Logger } from '../../../observability/log.ts';
import type { CloseReason } from '../../../transport/transport.ts';
import type { TokenClaims } from '../access/access-tokens.ts';
import type { DropCause, Sender } from '../rendezvous/executor-session.ts';
import type { RelayMetrics } from './relay-metrics.ts';

/** The owner of a socket. */
export interface SocketFacts {
  readonly role: 'executor' | 'harness';
  readonly environmentId: string;
  readonly registrationId: string;
  readonly tokenId: string;
  readonly address: string | null;
}

/** One registry call, for the audit log. */
export interface CallFacts {
  readonly call: 'register' | 'connect' | 'validate';
  readonly token: TokenClaims;
  readonly address: string | null;
}

/** Writes the metrics, log lines and optional audit log of a relay. Of a frame it records only the size. */
export class RelayRecords {
  readonly metrics: RelayMetrics;
  readonly #log: Logger;
  readonly #audit: AuditLog | null;
  readonly #rejected: RejectedConnections | null;

  constructor(metrics: RelayMetrics, log: Logger, audit: AuditLog | null) {
    this.metrics = metrics;
    this.#log = log;
    this.#audit = audit;
    this.#rejected = audit === null ? null : new RejectedConnections(audit);
  }

  /** Records a registry call and its result. */
  called({ call, token, address }: CallFacts, status: number, facts: Readonly<Record<string, string>>): void {
    this.metrics.requests.add({ call, status: String(status) });
    const { id: tokenId, environmentId } = token;
    this.#record({ event: call, environmentId, tokenId, address, status, ...facts });
  }

  /** Counts a call above the limit. The audit log has it as a rejected connection: an environment must not fill it with calls. */
  calledTooOften(call: CallFacts['call']): void {
    this.metrics.requests.add({ call, status: '429' });
  }

  /** Records a rejected connection. `tokenId` is the insufficient token, if any. */
  connectionRejected(status: number, reason: string, address: string | null, tokenId: string | null): void {
    this.metrics.refusals.add({ status: String(status) });
    this.#rejected?.record(status, reason, address, tokenId);
  }

  /** Records an accepted socket. Returns a function that records its end. */
  socketOpened(facts: SocketFacts): (reason: CloseReason) => void {
    const { role, environmentId, registrationId, tokenId, address } = facts;
    const who = { role, environmentId, registrationId, tokenId, address };
    this.metrics.sockets.add({ role });
    this.#log.info('socket opened', who);
    this.#record({ event: 'socketOpened', ...who });
    const openedAt = performance.now();
    return ({ code }) => {
      const durationMs = Math.round(performance.now() - openedAt);
      // Omits the reason, which is text of the peer.
      this.#log.info('socket closed', { ...who, code, durationMs });
      this.#record({ event: 'socketClosed', ...who, code, durationMs });
    };
  }

  forwarded(sender: Sender, bytes: number): void {
    this.metrics.frames.add(BY_SENDER[sender]);
    this.metrics.bytes.add(BY_SENDER[sender], bytes);
  }

  dropped(sender: Sender, cause: DropCause): void {
    this.metrics.dropped.add({ sender, cause });
  }

  slowDisconnected(environmentId: string): void {
    this.metrics.slowDisconnected.add();
    this.#log.warn('disconnected a socket that did not read and blocked others', { environmentId });
  }

  /** Reopens the audit log after a log rotation. */
  async reopen(): Promise<void> {
    await this.#audit?.reopen();
  }

  async close(): Promise<void> {
    this.#rejected?.flushUnrecorded();
    await this.#audit?.close();
  }

  #record(record: Parameters<AuditLog['append']>[0]): void {
    this.#audit?.append(record, 'low').catch(() => {});
  }
}

const BY_SENDER = { executor: { sender: 'executor' }, harness: { sender: 'harness' } } as const;
