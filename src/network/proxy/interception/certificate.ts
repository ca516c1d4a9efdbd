import { createHash, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';
import { BACKDATED_DAYS } from '../limits.ts';
import { encodeAddress } from '../socks5-address.ts';
import * as der from './der.ts';

/** The signer of a certificate. */
export interface Issuer {
  readonly name: string;
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

/** The self-signed certificate of an issuer, in PEM. */
export function authorityCertificate(issuer: Issuer, now: Date, days: number): string {
  const { name, publicKey } = issuer;
  return certificate(issuer, {
    name,
    publicKey,
    validity: validity(now, days),
    extensions: [
      // It may sign host certificates, but no further CA certificates.
      extension(BASIC_CONSTRAINTS, true, der.sequence(der.boolean(true), der.integer(Buffer.from([0])))),
      extension(KEY_USAGE, true, der.bits(Buffer.from([CERTIFICATE_SIGNING]), 2)),
      extension(SUBJECT_KEY, false, der.octets(keyIdentifier(publicKey))),
    ],
  });
}

/** A certificate for a host name or address, in PEM. */
export function hostCertificate(
  issuer: Issuer,
  host: string,
  publicKey: KeyObject,
  now: Date,
  days: number,
): string {
  const alternative =
    isIP(host) === 0
      ? der.contextBytes(DNS_NAME, Buffer.from(host, 'latin1'))
      : der.contextBytes(IP_ADDRESS, encodeAddress(host, 0).subarray(1, -2));
  return certificate(issuer, {
    name: 'exec-server',
    publicKey,
    validity: validity(now, days),
    extensions: [
      extension(BASIC_CONSTRAINTS, true, der.sequence()),
      extension(KEY_USAGE, true, der.bits(Buffer.from([DIGITAL_SIGNATURE]), 7)),
      extension(EXTENDED_KEY_USAGE, false, der.sequence(der.objectIdentifier(SERVER_AUTHENTICATION))),
      extension(SUBJECT_NAMES, false, der.sequence(alternative)),
      extension(SUBJECT_KEY, false, der.octets(keyIdentifier(publicKey))),
      extension(AUTHORITY_KEY, false, der.sequence(der.contextBytes(0, keyIdentifier(issuer.publicKey)))),
    ],
  });
}

interface Contents {
  readonly name: string;
  readonly publicKey: KeyObject;
  readonly validity: Buffer;
  readonly extensions: readonly Buffer[];
}

function certificate(issuer: Issuer, contents: Contents): string {
  const algorithm = der.sequence(der.objectIdentifier(ECDSA_WITH_SHA256));
  const signed = der.sequence(
    der.context(0, der.integer(Buffer.from([VERSION_3]))),
    der.integer(randomBytes(SERIAL_BYTES)),
    algorithm,
    commonName(issuer.name),
    contents.validity,
    commonName(contents.name),
    contents.publicKey.export({ type: 'spki', format: 'der' }),
    der.context(3, der.sequence(...contents.extensions)),
  );
  const signature = sign('sha256', signed, issuer.privateKey);
  return pem(der.sequence(signed, algorithm, der.bits(signature)));
}

function commonName(name: string): Buffer {
  return der.sequence(der.set(der.sequence(der.objectIdentifier(COMMON_NAME), der.text(name))));
}

function validity(now: Date, days: number): Buffer {
  const at = (offset: number) => der.time(new Date(now.getTime() + offset * DAY_MS));
  return der.sequence(at(-BACKDATED_DAYS), at(days));
}

function extension(identifier: string, critical: boolean, value: Buffer): Buffer {
  const mark = critical ? [der.boolean(true)] : [];
  return der.sequence(der.objectIdentifier(identifier), ...mark, der.octets(value));
}

function keyIdentifier(key: KeyObject): Buffer {
  const digest = createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest();
  return digest.subarray(0, KEY_IDENTIFIER_BYTES);
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

const DAY_MS = 24 * 60 * 60 * 1000;
const VERSION_3 = 2;
/** Random and unguessable, as the CA/Browser Forum's baseline requirements demand. */
const SERIAL_BYTES = 16;
const KEY_IDENTIFIER_BYTES = 20;

const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';
const COMMON_NAME = '2.5.4.3';
const SUBJECT_KEY = '2.5.29.14';
const KEY_USAGE = '2.5.29.15';
const SUBJECT_NAMES = '2.5.29.17';
const BASIC_CONSTRAINTS = '2.5.29.19';
const AUTHORITY_KEY = '2.5.29.35';
const EXTENDED_KEY_USAGE = '2.5.29.37';
const SERVER_AUTHENTICATION = '1.3.6.1.5.5.7.3.1';

/** Types of a subject alternative name. */
const DNS_NAME = 2;
const IP_ADDRESS = 7;

/** Bits of the key usage, counted from the left. */
const DIGITAL_SIGNATURE = 0x80;
const CERTIFICATE_SIGNING = 0x04;
