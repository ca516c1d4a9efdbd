import { isIP } from 'node:net';
import { quoteValue } from '../../server/config/values.ts';
import { UsageError } from '../failures.ts';

/** What `[BIND:]LOCAL[:HOST]:REMOTE` asks for. */
export interface ForwardSpec {
  readonly bind: string;
  /** 0 is any free port. */
  readonly localPort: number;
  readonly host: string;
  readonly port: number;
}

export const LOOPBACK = '127.0.0.1';

const FORMS = 'write PORT, LOCAL:REMOTE, LOCAL:HOST:REMOTE or BIND:LOCAL[:HOST]:REMOTE';

/** Parses `[BIND:]LOCAL[:HOST]:REMOTE` or `PORT`. An IPv6 address is in brackets. Throws UsageError. */
export function parseForward(text: string): ForwardSpec {
  const refuse = (problem: string) => new UsageError(`${quoteValue(text)} ${problem}`, 'port-forward');
  const parts = splitParts(text);
  if (parts === null) throw refuse(`is no port to forward; ${FORMS}`);
  const last = parts.at(-1)!;
  if (!isPort(last)) throw refuse(`does not end with a port of the server, 1 to 65535; ${FORMS}`);
  const port = Number(last);
  if (port === 0) throw refuse(`names no port of the server; write 0:PORT for any free local port`);
  const { bind, local, host } = rolesOf(parts.slice(0, -1), last);
  if (local === null) throw refuse(`has no local port; ${FORMS}`);
  if (bind === '*') throw refuse('does not name an address; write 0.0.0.0 for all addresses');
  for (const [role, name] of Object.entries({ BIND: bind, HOST: host })) {
    if (name !== null && !isHost(name)) throw refuse(`has ${quoteValue(name)} as ${role}, which is no host`);
  }
  return {
    bind: unbracketed(bind ?? LOOPBACK),
    localPort: Number(local),
    host: unbracketed(host ?? LOOPBACK),
    port,
  };
}

/** Parses several, and throws UsageError when two of them need the same local port. */
export function parseForwards(texts: readonly string[]): readonly ForwardSpec[] {
  const specs = texts.map(parseForward);
  const seen = new Set<string>();
  for (const { bind, localPort } of specs) {
    const address = hostAndPort(bind, localPort);
    if (localPort !== 0 && seen.has(address)) {
      throw new UsageError(
        `${address} is given more than once; write 0:PORT for any free port`,
        'port-forward',
      );
    }
    seen.add(address);
  }
  return specs;
}

/** Whether a port of one machine would be forwarded to itself, if the server is on this machine. */
export function isLoop({ bind, localPort, host, port }: ForwardSpec): boolean {
  if (localPort !== port) return false;
  const [from, to] = [addressOf(bind), addressOf(host)];
  const isAny = from === '::' || from === '0.0.0.0';
  return from === to || (isAny && (to === LOOPBACK || to === '::1'));
}

function addressOf(host: string): string {
  return host === 'localhost' ? LOOPBACK : host;
}

/** `HOST:PORT`, with brackets around an IPv6 address. */
export function hostAndPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The other end of a forwarded port, for people: the port alone on the server's own loopback. */
export function remoteText({ host, port }: Pick<ForwardSpec, 'host' | 'port'>): string {
  return host === LOOPBACK ? String(port) : hostAndPort(host, port);
}

/** Splits at colons outside of brackets. Null when there are more parts than any form has, or brackets that do not match. */
function splitParts(text: string): string[] | null {
  if (!/^(?:\[[^[\]]*\]|[^:[\]]+)(?::(?:\[[^[\]]*\]|[^:[\]]+)){0,3}$/.test(text)) return null;
  return text.match(/\[[^\]]*\]|[^:]+/g);
}

interface Roles {
  readonly bind: string | null;
  readonly local: string | null;
  readonly host: string | null;
}

/** What the parts before the remote port are. A number in front is the local port; a name in front of a number is the bind address. */
function rolesOf(parts: readonly string[], last: string): Roles {
  const [first = null, second = null, third = null] = parts;
  if (first === null) return { bind: null, local: last, host: null };
  if (isPort(first)) return third === null ? { bind: null, local: first, host: second } : NO_ROLES;
  return second !== null && isPort(second) ? { bind: first, local: second, host: third } : NO_ROLES;
}

const NO_ROLES: Roles = { bind: null, local: null, host: null };

/** Whether a text is a port, or 0. */
export function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535;
}

function isHost(text: string): boolean {
  if (text.startsWith('[')) return isIP(unbracketed(text)) === 6;
  return isIP(text) === 4 || (/^[\w.-]{1,253}$/.test(text) && /[^\d.]/.test(text));
}

function unbracketed(text: string): string {
  return text.replace(/^\[(.*)\]$/, '$1');
}
