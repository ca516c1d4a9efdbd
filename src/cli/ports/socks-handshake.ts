import { isIP } from 'node:net';

/** Where a SOCKS client wants to connect to. */
export interface SocksTarget {
  readonly host: string;
  readonly port: number;
}

/** What the bytes so far mean. */
export interface SocksProgress {
  /** Bytes to send to the client; empty for none. */
  readonly answer: Uint8Array;
  /** Set when the handshake is complete. */
  readonly target: SocksTarget | null;
  /** Set when the handshake has failed: `answer` is the last that the client gets. */
  readonly problem: string | null;
}

/** Codes of a reply (RFC 1928, section 6). */
export const SocksReply = {
  succeeded: 0,
  failed: 1,
  notAllowed: 2,
  hostUnreachable: 4,
  refused: 5,
  unknownCommand: 7,
  unknownAddress: 8,
} as const;

const VERSION = 5;
const NO_AUTHENTICATION = 0;
const NO_METHOD = 0xff;
const CONNECT = 1;
const NOTHING = new Uint8Array();

/**
 * The server's side of a SOCKS 5 handshake without authentication (RFC 1928), from bytes that arrive in any portions. It holds at most
 * one message of the handshake, 262 bytes, besides the last portion.
 */
export class SocksHandshake {
  #bytes: Uint8Array = NOTHING;
  #hasGreeted = false;

  /** Bytes that the client sent behind its request: they are for the target. */
  get rest(): Uint8Array {
    return this.#bytes;
  }

  /** Takes the next bytes. Must not be called again after a target or a problem. */
  push(chunk: Uint8Array): SocksProgress {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    let answer: Uint8Array = NOTHING;
    if (!this.#hasGreeted) {
      const greeting = this.#greeting();
      if (greeting === null || greeting.problem !== null) return greeting ?? MORE;
      answer = greeting.answer;
    }
    const request = this.#request();
    if (request === null) return { ...MORE, answer };
    return { ...request, answer: Buffer.concat([answer, request.answer]) };
  }

  /** VER, NMETHODS, METHODS. Null until it is complete. */
  #greeting(): SocksProgress | null {
    const [version, count] = this.#bytes;
    if (version === undefined) return null;
    if (version !== VERSION) return failed(NOTHING, `the client does not speak SOCKS 5${hintFor(version)}`);
    if (count === undefined || this.#bytes.length < 2 + count) return null;
    const methods = this.#take(2 + count).subarray(2);
    if (!methods.includes(NO_AUTHENTICATION)) {
      return failed(
        Uint8Array.of(VERSION, NO_METHOD),
        'the client wants to authenticate; remove its user name and password',
      );
    }
    this.#hasGreeted = true;
    return { ...MORE, answer: Uint8Array.of(VERSION, NO_AUTHENTICATION) };
  }

  /** VER, CMD, RSV, ATYP, DST.ADDR, DST.PORT. Null until it is complete. */
  #request(): SocksProgress | null {
    const [version, command, , addressType, nameLength] = this.#bytes;
    if (version !== undefined && version !== VERSION) {
      return failed(NOTHING, 'the client sent an invalid SOCKS request');
    }
    if (addressType === undefined) return null;
    if (command !== CONNECT) {
      return failed(
        socksReply(SocksReply.unknownCommand),
        'the client asked for another command than CONNECT, which is the only one',
      );
    }
    const addressLength = ADDRESS_LENGTHS[addressType] ?? (addressType === NAME ? nameLength : 0);
    if (addressLength === undefined) return null;
    if (addressLength === 0) {
      return failed(
        socksReply(SocksReply.unknownAddress),
        'the client sent an address of an unknown type, or an empty name',
      );
    }
    const start = addressType === NAME ? 5 : 4;
    const end = start + addressLength;
    if (this.#bytes.length < end + 2) return null;
    const message = this.#take(end + 2);
    const host = hostOf(addressType, message.subarray(start, end));
    const port = message[end]! * 256 + message[end + 1]!;
    if (host === null || port === 0) {
      return failed(socksReply(SocksReply.failed), 'the client sent an invalid host name or port');
    }
    return { ...MORE, target: { host, port } };
  }

  #take(count: number): Uint8Array {
    const taken = this.#bytes.subarray(0, count);
    this.#bytes = this.#bytes.subarray(count);
    return taken;
  }
}

/** The reply to a request. The bound address is of no use to clients of CONNECT, and is not known here. */
export function socksReply(code: number): Uint8Array {
  return Uint8Array.of(VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0);
}

const MORE: SocksProgress = { answer: NOTHING, target: null, problem: null };

const IPV4 = 1;
const NAME = 3;
const IPV6 = 4;
const ADDRESS_LENGTHS: Readonly<Record<number, number>> = { [IPV4]: 4, [IPV6]: 16 };

function failed(answer: Uint8Array, problem: string): SocksProgress {
  return { answer, target: null, problem };
}

function hostOf(addressType: number, bytes: Uint8Array): string | null {
  if (addressType === IPV4) return bytes.join('.');
  if (addressType === IPV6) {
    const groups = Array.from({ length: 8 }, (_, i) =>
      (bytes[2 * i]! * 256 + bytes[2 * i + 1]!).toString(16),
    );
    // The form that every other program writes, such as ::1.
    return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1);
  }
  const name = Buffer.from(bytes).toString('latin1');
  return /^[\w.-]+$/.test(name) || isIP(name) !== 0 ? name : null;
}

function hintFor(version: number): string {
  if (version === 4) return ' but SOCKS 4; use socks5h://';
  return version >= 0x41 && version <= 0x5a ? ' but perhaps HTTP; use socks5h://, not http://' : '';
}
