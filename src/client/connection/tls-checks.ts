import type { TlsOptions } from '../../transport/tls-options.ts';
import { ClientError } from '../errors.ts';
import { expectOptions, type OptionNames, wrong } from './option-checks.ts';

/** Checks the option `tls` of `connect`. Throws ClientError of the kind `config`. */
export function checkTls(tls: unknown): asserts tls is TlsOptions | undefined {
  if (tls === undefined) return;
  if (typeof tls !== 'object' || tls === null || Array.isArray(tls))
    throw wrong(
      '`tls` is',
      tls,
      'an object',
      'write wss:// for TLS, and pass { ca } to trust a certificate',
      'config',
    );
  expectOptions('`tls` of connect', tls, TLS_OPTIONS, 'config');
  const { ca, cert, key, rejectUnauthorized } = tls as Record<string, unknown>;
  for (const one of Array.isArray(ca) ? ca : [ca]) checkPem('tls.ca', one);
  checkPem('tls.cert', cert);
  checkPem('tls.key', key);
  if (rejectUnauthorized !== undefined && typeof rejectUnauthorized !== 'boolean')
    throw wrong('`tls.rejectUnauthorized` is', rejectUnauthorized, 'true or false', undefined, 'config');
}

const TLS_OPTIONS: OptionNames<TlsOptions> = { ca: true, cert: true, key: true, rejectUnauthorized: true };

function checkPem(name: string, value: unknown): void {
  if (value === undefined || ArrayBuffer.isView(value)) return;
  if (typeof value !== 'string') throw wrong(`\`${name}\` is`, value, 'text or bytes', undefined, 'config');
  if (value.includes('-----BEGIN ')) return;
  throw new ClientError('config', `\`${name}\` is not PEM text`, {
    hint: 'pass the content of the file, not its path',
  });
}
