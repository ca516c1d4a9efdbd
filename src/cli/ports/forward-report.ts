import { ClientError, messageWithoutHint } from '../../client/errors.ts';
import type { Host } from '../commands.ts';
import { visible } from '../terminal-text.ts';
import { type ForwardSpec, hostAndPort, remoteText } from './forward-spec.ts';
import { MAX_SHOWN_ERRORS } from './limits.ts';

/** A local port that listens, and where it leads to. */
export interface ListeningPort {
  readonly bind: string;
  readonly port: number;
  /** Null for a SOCKS proxy, whose clients choose it. */
  readonly remote: Pick<ForwardSpec, 'host' | 'port'> | null;
  /** The process that listens on the remote port, where that is known. */
  readonly ref: string | null;
  /** Why it is another port than the remote one, where the same was wanted. */
  readonly note: string | null;
}

/**
 * Prints what happens to forwarded ports: lines for people, with the ports on stdout and everything else on stderr, or one JSON object
 * per line on stdout.
 */
export class ForwardReport {
  readonly #host: Pick<Host, 'stdout' | 'stderr'>;
  readonly #json: boolean;
  /** Errors of connections that were shown and still hold, by target. */
  readonly #shown = new Map<string, string>();
  #lastReason = '';

  constructor(host: Pick<Host, 'stdout' | 'stderr'>, json: boolean) {
    this.#host = host;
    this.#json = json;
  }

  listening(listening: ListeningPort): void {
    const { remote, ref, note } = listening;
    const what = remote === null ? 'SOCKS5' : remoteText(remote);
    const from = ref === null ? '' : ` (${ref})`;
    this.#port(`${addressOf(listening)} -> ${what}${from}${note === null ? '' : `; ${note}`}`, {
      type: 'listening',
      ...fieldsOf(listening),
    });
  }

  /** The program no longer listens on the remote port. */
  closed(listening: ListeningPort): void {
    const { remote } = listening;
    const why = remote === null ? '' : `: the program no longer listens on ${remoteText(remote)}`;
    this.#port(`${addressOf(listening)} closed${why}`, { type: 'closed', ...fieldsOf(listening) });
  }

  /** The connection to the server is lost. */
  lost(reason: string, openStreams: number): void {
    this.#lastReason = reason;
    const streams = openStreams === 1 ? 'one open stream was' : `${openStreams} open streams were`;
    const ended = openStreams === 0 ? '' : `; ${streams} reset`;
    this.#status(`${reason}${ended}; reconnecting…`, {
      type: 'reconnecting',
      reason,
      openStreams,
    });
  }

  /** An attempt to reconnect has failed. Each reason is shown once. */
  stillLost(error: Error): void {
    if (error.message === this.#lastReason) return;
    this.#lastReason = error.message;
    this.#status(`cannot reconnect yet: ${error.message}`, {
      type: 'retrying',
      reason: error.message,
    });
  }

  reconnected(): void {
    this.#status('reconnected', { type: 'reconnected' });
  }

  /** A connection to `target` failed. The same error of the same target is shown once, until a connection has succeeded. */
  failed(target: string | null, error: Error): void {
    const { message, hint } = explained(error);
    const label = target ?? '';
    if (this.#shown.get(label) === message) return;
    if (this.#shown.size >= MAX_SHOWN_ERRORS) this.#shown.clear();
    this.#shown.set(label, message);
    const text = hint === null ? message : `${message}; ${hint}`;
    const code = error instanceof ClientError ? error.kind : 'failed';
    this.#status(target === null ? text : `${target}: ${text}`, {
      type: 'error',
      target,
      code,
      message,
      hint,
    });
  }

  /** A connection to `target` has succeeded. */
  succeeded(target: string): void {
    this.#shown.delete(target);
  }

  #port(line: string, event: object): void {
    this.#host.stdout.write(`${this.#json ? JSON.stringify(event) : visible(line)}\n`);
  }

  #status(line: string, event: object): void {
    if (this.#json) this.#host.stdout.write(`${JSON.stringify(event)}\n`);
    else this.#host.stderr.write(`exec-server port-forward: ${visible(line)}\n`);
  }
}

function addressOf({ bind, port }: ListeningPort): string {
  return hostAndPort(bind, port);
}

function fieldsOf({ bind, port, remote, ref }: ListeningPort) {
  return {
    address: bind,
    port,
    ...(remote === null ? { protocol: 'socks5' } : { remoteHost: remote.host, remotePort: remote.port }),
    ...(ref !== null && { ref }),
  };
}

/** The message and what to do about it on a command line, where the client library names its options. */
function explained(error: Error): { readonly message: string; readonly hint: string | null } {
  const isClientError = error instanceof ClientError;
  const message = (isClientError ? messageWithoutHint(error) : error.message).replaceAll('`', '');
  if (/\(tcpAllowedHosts\)|in tcpAllowedHosts/.test(message)) {
    return { message, hint: "list the host in the server's --tcp-allowed-hosts" };
  }
  return { message, hint: isClientError ? error.hint : null };
}
