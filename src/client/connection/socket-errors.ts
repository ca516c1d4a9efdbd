import { printable } from '../../protocol/errors.ts';
import { ClientError } from '../errors.ts';

/** What is known about the connection that failed. */
interface Attempt {
  /** Whether the client has a certificate of its own. */
  readonly hasCertificate: boolean;
}

/** Explains a TLS handshake that failed. Returns null for any other error. */
export function tlsError(name: string, error: unknown, { hasCertificate }: Attempt): ClientError | null {
  const { message } = error as Error;
  const code = codeOf(error);
  if (NO_TLS.test(message)) {
    return final(`${name} does not speak TLS`, 'use ws:// for a server without a certificate', error);
  }
  if (!TLS_FAILURE.test(code)) return null;
  const alert = ALERT.exec(message)?.[1];
  if (alert === undefined) {
    const reason = `the certificate of ${name} is not trusted: ${message}`;
    return final(reason, CERTIFICATE_HINTS.get(code) ?? DEFAULT_CERTIFICATE_HINT, error);
  }
  if (alert === 'certificate required' || (alert === 'handshake failure' && !hasCertificate)) {
    return final(`${name} requires a client certificate`, SIGNED_CERTIFICATE, error);
  }
  if (hasCertificate && CERTIFICATE_ALERTS.has(alert)) {
    const hint = 'pass a certificate that an authority of the server has signed and that has not expired';
    return final(`${name} does not accept the client certificate: ${alert}`, hint, error);
  }
  const hint = 'compare the TLS versions and ciphers of client and server';
  return final(`the TLS handshake with ${name} failed: ${alert}`, hint, error);
}

/** Explains why a server that was reached did not answer in HTTP. Returns null for any other error. */
export function unansweredError(
  name: string,
  error: unknown,
  { hasCertificate, hasWorked }: Attempt & { readonly hasWorked: boolean },
): ClientError | null {
  const code = codeOf(error);
  const isPlain = !name.startsWith('wss:');
  if (code.startsWith('HPE_')) {
    const { rawPacket } = error as { readonly rawPacket?: Uint8Array };
    return isPlain && rawPacket?.[0] === TLS_ALERT_RECORD
      ? final(`${name} speaks TLS`, 'use wss://', error)
      : temporary(`${name} does not speak HTTP`, 'check the port: another service listens there', error);
  }
  if (code !== 'ECONNRESET' && code !== 'EPIPE') return null;
  const secured = hasCertificate ? REFUSED_CERTIFICATE : MAY_NEED_CERTIFICATE;
  // An address that has answered before uses neither another scheme nor another certificate now.
  if (hasWorked)
    return temporary(`${name} closed the connection before it answered`, 'try again later', error);
  const hint = `${isPlain ? 'if the server uses TLS, write wss://' : secured}; otherwise try again later`;
  return temporary(`${name} closed the connection before it answered`, hint, error);
}

/** OpenSSL's messages when the peer does not speak TLS. */
const NO_TLS = /wrong version number|packet length too long|http request/;

/** Node's error codes for certificate and TLS handshake failures. */
const TLS_FAILURE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO/;

/** The reason that the peer gives for ending a handshake, in the message of OpenSSL. */
const ALERT = /alert ([a-z ]+):/;

/** Alerts about the certificate of the peer that receives them. */
const CERTIFICATE_ALERTS: ReadonlySet<string> = new Set([
  'bad certificate',
  'unsupported certificate',
  'certificate revoked',
  'certificate expired',
  'certificate unknown',
  'unknown ca',
  'handshake failure',
]);

const CERTIFICATE_HINTS: ReadonlyMap<string, string> = new Map([
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'connect by a host name that the certificate lists'],
  ['CERT_HAS_EXPIRED', 'renew the certificate of the server'],
]);
const DEFAULT_CERTIFICATE_HINT = 'pass the certificate of its certificate authority as `tls.ca`';
const SIGNED_CERTIFICATE = 'pass one that its certificate authority has signed as `tls.cert` and `tls.key`';
const REFUSED_CERTIFICATE = 'check that the server accepts the client certificate';
const MAY_NEED_CERTIFICATE =
  'if the server requires a client certificate, pass it as `tls.cert` and `tls.key`';

/** The first byte of a TLS alert, which a server may answer to a plain request. */
const TLS_ALERT_RECORD = 0x15;

/** A later attempt may succeed. */
function temporary(message: string, hint: string, cause: unknown): ClientError {
  return new ClientError('connectFailed', message, { cause, hint, retryable: true });
}

/** No further attempt will succeed. */
function final(message: string, hint: string, cause: unknown): ClientError {
  return new ClientError('connectFailed', printable(message, 500), { cause, hint });
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}
