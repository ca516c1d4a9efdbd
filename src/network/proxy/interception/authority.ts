import { generateKeyPair, type KeyObject, randomBytes } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { promisify } from 'node:util';
import { AUTHORITY_DAYS, LEAF_DAYS, LEAF_RENEWAL_DAYS, MAX_LEAVES } from '../limits.ts';
import { authorityCertificate, hostCertificate, type Issuer } from './certificate.ts';

/**
 * An authority that vouches for hosts to the programs of this server. Its keys are in memory only, so that nobody else can speak for
 * a host, and nobody at all once the server has ended.
 */
export class Authority {
  /** What programs have to trust, in PEM. */
  readonly certificate: string;
  readonly #issuer: Issuer;
  /** One key for all hosts: who has it has the memory of this process. */
  readonly #leafKeys: KeyPair;
  /** By host, the one that was used longest ago first. */
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

  /** What a TLS server needs to be taken for the host. */
  contextFor(host: string): SecureContext {
    const now = this.#now();
    const known = this.#leaves.get(host);
    this.#leaves.delete(host);
    const leaf = known !== undefined && now < known.renewAt ? known : this.#newLeaf(host, now);
    this.#leaves.set(host, leaf);
    if (this.#leaves.size > MAX_LEAVES) this.#leaves.delete(this.#leaves.keys().next().value ?? '');
    return leaf.context;
  }

  /** How many certificates are kept. */
  get size(): number {
    return this.#leaves.size;
  }

  #newLeaf(host: string, now: number) {
    const { publicKey, privateKey } = this.#leafKeys;
    const cert = hostCertificate(this.#issuer, host, publicKey, new Date(now), LEAF_DAYS);
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' });
    return {
      // It asks nobody for a certificate, so that it need not know whom to trust, which is a lot.
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
