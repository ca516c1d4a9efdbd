import type { Transport } from '../../transport/transport.ts';
import { MAX_TIMER_MS } from '../limits.ts';
import { checkBytes, checkDuration } from './option-checks.ts';
import type { PolicyHandler } from './policy-requests.ts';
import type { TraceSource } from './trace.ts';

/** Options of every client. */
export interface SessionOptions {
  /** Name of the client, for the server's logs. */
  readonly clientName?: string;
  readonly connectTimeoutMs?: number;
  readonly initializeTimeoutMs?: number;
  /** How long the client tries to restore a lost connection. 0 fails immediately; `none` never gives up. */
  readonly recoveryWindowMs?: number | 'none';
  /** Resumes a session that another client has left, instead of opening a new one. */
  readonly resumeSessionId?: string;
  /**
   * How long the server keeps the session and its processes without a connection: after a lost one at most
   * `limits.maxDetachedSessionTtlMs` of its description, after `close()` at most `limits.detachedSessionTtlMs`. 0 ends them with the
   * connection; `none` asks for the most.
   */
  readonly detachedSessionTtlMs?: number | 'none';
  /**
   * Opens a session also on a server that drains. Such a session can list, view, wait for and control programs and read files; the
   * server refuses new programs, changes of files and connections.
   */
  readonly whileDraining?: boolean;
  /**
   * Decides whether processes of `client.backend` may reach a host that no pattern of their
   * `networkProxy` allows. The server asks only where `networkProxy` has `policyDecisionTimeoutMs`. Without a
   * handler the host is denied.
   */
  readonly onNetworkPolicyRequest?: PolicyHandler;
  /**
   * Returns the trace that a call belongs to, for servers that record traces. Use `activeTrace` with OpenTelemetry.
   */
  readonly trace?: TraceSource;
  /** Largest message that the client accepts from the server. */
  readonly maxMessageBytes?: number;
  /** Aborts connecting; it has no effect afterwards. */
  readonly signal?: AbortSignal;
}

/** How a client of a URL finds out that the server is gone. */
export interface KeepAliveOptions {
  /** Interval of websocket pings, in a browser of calls. 0 sends none. */
  readonly pingIntervalMs?: number;
  /** How long the server may send nothing before the connection counts as lost. 0 is no limit. */
  readonly pongTimeoutMs?: number;
}

/** Opens transports to a server. */
export interface TransportSource {
  /** Opens a transport. It should stop when the signal aborts. */
  open(signal: AbortSignal): Promise<Transport>;
  /** Whether a new transport can resume the same session after one is lost. */
  readonly resumable: boolean;
}

/** Throws ClientError of kind `config` for an invalid number. */
export function checkNumbers(options: SessionOptions & KeepAliveOptions): void {
  for (const name of ['connectTimeoutMs', 'initializeTimeoutMs'] as const) {
    checkDuration(name, options[name], { kind: 'config' });
  }
  for (const name of ['pingIntervalMs', 'pongTimeoutMs'] as const) {
    checkDuration(name, options[name], { max: MAX_TIMER_MS, kind: 'config' });
  }
  checkBytes('maxMessageBytes', options.maxMessageBytes, { min: 1, kind: 'config' });
}
