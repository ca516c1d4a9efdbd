import { generateKeyPair, type KeyObject, randomBytes } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { promisify } from 'node:util';
import { AUTHORITY_DAYS, LEAF_DAYS, LEAF_RENEWAL_DAYS, MAX_LEAVES } from '../limits.ts';
import { authorityCertificate, hostCertificate, type Issuer } from './certificate.ts';

/**
 * A certificate authority that issues host certificates for the programs of this server. Its keys exist only in memory, so no
 * other process can impersonate a host, and none at all after the server has ended.
 */
export class Authority {
  /** The CA certificate that programs must trust, in PEM. */
  readonly certificate: string;
  readonly #issuer: Issuer;
  /** One key for all hosts. A program that can read it can read the memory of this process anyway. */
  readonly #leafKeys: KeyPair;
  /** By host, the least recently used first. */
  readonly #leaves = new Map<string, { readonly context: SecureContext; readonly renewAt: number }>();
  readonly #now: () => number;

  private constructor(own: KeyPair, leafKeys: KeyPair, now: () => number) {
    this.#issuer = { name: `exec-server ${randomBytes(4).toString('hex')}`, ...own };
    this.#leafKeys = leafKeys;
    this.#now = now;
    this.certificate = authorityCertificate(this.#issuer, new Date(now()), AUTHORITY_DAYS);
  }

  static async create(now: () => number = Date.now): Promise<Authority> {
    const [own, leaves] = await Promise.all([newKeys(), newKeys()]);
    return new Authority(own, leaves, now);
  }

  /** The context of a TLS server that impersonates the host. */
  contextFor(host: string): SecureContext {
    const now = this.#now();
    const known = this.#leaves.get(host);
    this.#leaves.delete(host);
    const leaf = known !== undefined && now < known.renewAt ? known : this.#newLeaf(host, now);
    this.#leaves.set(host, leaf);
    if (this.#leaves.size > MAX_LEAVES) this.#leaves.delete(this.#leaves.keys().next().value ?? '');
    return leaf.context;
  }

  /** Number of certificates in the cache. */
  get size(): number {
    return this.#leaves.size;
  }

  #newLeaf(host: string, now: number) {
    const { publicKey, privateKey } = this.#leafKeys;
    const cert = hostCertificate(this.#issuer, host, publicKey, new Date(now), LEAF_DAYS);
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' });
    return {
      // An empty list of CAs: the server requests no client certificates, and Node's default list is large.
      context: createSecureContext({ cert, key, ca: [], minVersion: 'TLSv1.2' }),
      renewAt: now + LEAF_RENEWAL_DAYS * DAY_MS,
    };
  }
}

interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const DAY_MS = 24 * 60 * 60 * 1000;

function newKeys(): Promise<KeyPair> {
  return promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
}
