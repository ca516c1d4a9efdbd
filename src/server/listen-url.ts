import { isIPv4, isIPv6 } from 'node:net';
import { DEFAULT_CONFIG } from './config.ts';

/** Where a server listens when nobody says otherwise: loopback, on a port the system picks. */
export const DEFAULT_LISTEN_URL = DEFAULT_CONFIG.listen;

/** A parsed listen URL. `host` is a bare IP address, without the brackets of IPv6. */
export type ListenAddress =
  | { readonly kind: 'websocket'; readonly host: string; readonly port: number }
  | { readonly kind: 'stdio' }
  | { readonly kind: 'off' };

/** Why a listen URL was refused: a scheme that is not served, or a `ws:` URL that is not `ws://IP:PORT`. */
export class ListenUrlError extends Error {
  override readonly name = 'ListenUrlError';
  readonly kind: 'unsupported' | 'invalid';

  constructor(kind: 'unsupported' | 'invalid', text: string) {
    super(
      kind === 'unsupported'
        ? `unsupported --listen URL \`${text}\`; expected \`ws://IP:PORT\` or \`stdio\``
        : `invalid websocket --listen URL \`${text}\`; expected \`ws://IP:PORT\``,
    );
    this.kind = kind;
  }
}

/**
 * Reads `ws://IP:PORT`, `stdio`, `stdio://` or `off`; throws ListenUrlError for anything else.
 * Host names are refused: what one resolves to can change, and a server must know which interface it opens.
 */
export function parseListenUrl(text: string): ListenAddress {
  if (text === 'stdio' || text === 'stdio://') return { kind: 'stdio' };
  if (text === 'off') return { kind: 'off' };
  if (!text.startsWith(WEBSOCKET_SCHEME)) throw new ListenUrlError('unsupported', text);

  const match = HOST_AND_PORT.exec(text.slice(WEBSOCKET_SCHEME.length));
  const [, v6, v4, port] = match ?? [];
  const host = v6 ?? v4 ?? '';
  const isAddress = v6 === undefined ? isIPv4(host) : isIPv6(host);
  if (!isAddress || Number(port) > MAX_PORT) throw new ListenUrlError('invalid', text);
  return { kind: 'websocket', host, port: Number(port) };
}

const WEBSOCKET_SCHEME = 'ws://';
const HOST_AND_PORT = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/;
const MAX_PORT = 65_535;
