import type { SocketAddress, UnixAddress } from '../../listener/listen-url.ts';
import { StartError } from '../../listener/start-error.ts';
import type { TlsFiles } from '../../listener/tls.ts';
import type { ExecServerConfig } from '../config/config.ts';

/** The files for a listener's TLS, null for one without. Throws StartError when settings and address do not fit together. */
export function tlsFilesOf(
  { tlsCert, tlsKey, tlsClientCa, listen }: ExecServerConfig,
  address: SocketAddress | UnixAddress,
): TlsFiles | null {
  const secure = address.kind === 'websocket' && address.secure;
  if (!secure) {
    if (tlsCert === '' && tlsKey === '' && tlsClientCa === '') return null;
    // Serving without TLS what was meant to have it would be worse than not serving.
    throw new StartError(`TLS settings need \`--listen wss://IP:PORT\`; \`${listen}\` has no TLS`);
  }
  if (tlsCert === '' || tlsKey === '') {
    throw new StartError(`\`${listen}\` needs \`--tls-cert FILE\` and \`--tls-key FILE\``);
  }
  return { cert: tlsCert, key: tlsKey, clientCa: tlsClientCa === '' ? null : tlsClientCa };
}
