import type { ClientError } from '../../client/errors.ts';
import { systemReason } from '../../client/system-error.ts';
import { RunError } from '../failures.ts';

/** What the error for a failed connection depends on. */
export interface ServerFacts {
  /** Where the server is, for people. */
  readonly address: string;
  /** The file or the variable that has the token; null when it got none. */
  readonly tokenFrom: string | null;
  /** How to give it a token. */
  readonly tokenAdvice: string;
  /** Whether it is behind a relay. */
  readonly isRelay?: boolean;
  /** What to do about a server that does not answer; null where the network may be the reason. */
  readonly silentAdvice?: string | null;
}

/** The command that shows whether ssh finds exec-server on a machine. */
function sshTestFor(address: string): string {
  const [, host = address, port] = /^ssh:\/\/(.*?)(?::(\d+))?\/?$/.exec(address) ?? [];
  const flag = port === undefined ? '' : ` -p ${port}`;
  return `ssh${flag} ${host.replace(/[[\]]/g, '')} exec-server version`;
}

const NAME_WITH_CERTIFICATE =
  "name the server with 'exec-server env add NAME URL --tls-cert FILE --tls-key FILE'";

/** Says what to do on the command line, where the client library names its options. */
export function connectError(error: Error, facts: ServerFacts): Error {
  const { address, tokenFrom, tokenAdvice, isRelay, silentAdvice = null } = facts;
  if (error.name !== 'ClientError') return error;
  const { kind, hint, data, cause } = error as ClientError & { data?: { status?: unknown } };
  const message =
    cause instanceof Error ? error.message.replace(cause.message, systemReason(cause)) : error.message;
  const problem = hint ? message.slice(0, -`; ${hint}`.length) : message;
  const status = data?.status;
  if (status === 401) {
    const advice =
      tokenFrom === null
        ? `it needs a token: ${tokenAdvice}`
        : `the token in ${tokenFrom} is wrong, expired or revoked; put a new one there`;
    return new RunError(`${problem}; ${advice}`, { kind: 'permissionDenied' });
  }
  const limit = /(\d+) ms$/.exec(problem)?.[1];
  const time = limit === undefined ? 'too long' : `longer than ${Number(limit) / 1_000} s`;
  if (kind === 'connectTimeout') {
    const networkAdvice = isRelay
      ? 'check that its executor runs and is connected to the relay'
      : 'check the address, the network and the firewall';
    return new RunError(`connecting to ${address} took ${time}; ${silentAdvice ?? networkAdvice}`, { kind });
  }
  if (kind === 'initializeTimeout') {
    const advice = silentAdvice ?? 'check that an exec-server listens there, and try again';
    return new RunError(`the answer of ${address} took ${time}; ${advice}`, { kind });
  }
  const [, exit, said] = /: ssh has ended \(([^)]*)\)(?:: (.*?))?(?: \(\d+\))?$/.exec(problem) ?? [];
  if (exit === 'exit code 127') {
    return new RunError(
      'ssh has connected, but found no exec-server there; install it where the PATH of ssh commands has it',
      { kind },
    );
  }
  // An exec-server without the command says so, and then how to get help.
  if (exit === 'exit code 2' && /^exec-server: unknown command|^Try 'exec-server /.test(said ?? '')) {
    return new RunError(
      'ssh has connected, but the exec-server there is too old: it has no command proxy; update it there',
      { kind },
    );
  }
  if (exit !== undefined) {
    const reason = said?.replace(/\.$/, '') ?? 'it gave no reason';
    return new RunError(`ssh has failed (${exit}): ${reason}; try '${sshTestFor(address)}'`, { kind });
  }
  if (/requires a client certificate$/.test(problem)) {
    return new RunError(`${problem}; ${NAME_WITH_CERTIFICATE}`, { kind });
  }
  if (hint?.startsWith('if the server requires a client certificate')) {
    const advice = `if the server requires a client certificate, ${NAME_WITH_CERTIFICATE}; otherwise try again later`;
    return new RunError(`${problem}; ${advice}`, { kind });
  }
  // A hint that does not name the authority is about another defect of the certificate, such as its host name.
  if (/certificate of .* is not trusted/.test(problem) && (hint?.includes('tls.ca') ?? true)) {
    return new RunError(
      `${problem}; name the server with 'exec-server env add NAME URL --tls-ca FILE', or set SSL_CERT_FILE to the file; it has the certificate of the authority, or the server's own if it is self-signed`,
      { kind },
    );
  }
  return new RunError(message.replaceAll('`', ''), { kind });
}
