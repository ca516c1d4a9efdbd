import { type BigIntStats, rmSync } from 'node:fs';
import { lstat, mkdir, open, rm, rmdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { SecureContext } from 'node:tls';
import { rootCertificates } from 'node:tls';
import { NetworkError } from '../../errors.ts';
import type { AuthorityFiles } from '../../http/trusted-authorities.ts';
import { authorityFiles, trustIn } from '../../http/trusted-authorities.ts';
import type { ServerVariables } from '../proxy-resources.ts';
import { Authority } from './authority.ts';
import { removeOrphans } from './owned-folders.ts';

/** What interception needs, until it is released. */
export interface InterceptionLease {
  readonly authority: Authority;
  /** The CA certificates that must vouch for web servers. */
  readonly trust: SecureContext;
  /** The variables that make a program with the environment `env` trust the authority. */
  variables(env: Readonly<Record<string, string>>): Record<string, string>;
  /** Must be called once. */
  release(): void;
}

/**
 * What the proxies of a server share for interception: a certificate authority, and a bundle file with its certificate and those
 * that programs trust anyway. The file exists as long as a lease is held.
 */
export class InterceptionCertificates {
  readonly #bundlePath: string;
  readonly #env: ServerVariables;
  #authority: Promise<Authority> | null = null;
  #shared: Shared | null = null;
  /** Settles when the previous file has been removed. */
  #removed: Promise<void> = Promise.resolve();

  constructor(bundlePath: string, env: ServerVariables) {
    this.#bundlePath = bundlePath;
    this.#env = env;
  }

  /** Rejects with NetworkError when that is not possible; nothing is left behind then. */
  async acquire(): Promise<InterceptionLease> {
    this.#shared ??= { made: this.#make(), holders: 0 };
    const shared = this.#shared;
    shared.holders++;
    const release = () => this.#release(shared);
    try {
      const { authority, trust, identity } = await shared.made;
      await this.#checkUnchanged(identity);
      return { authority, trust, variables: (env) => this.#variables(env), release };
    } catch (error) {
      release();
      const reason = (error as Error).message.replace(/^http\/request failed: /, '');
      throw new NetworkError('failed', `networkProxy: credentialMasking: ${reason}`, { cause: error });
    }
  }

  #release(shared: Shared): void {
    if (--shared.holders > 0) return;
    if (this.#shared === shared) this.#shared = null;
    this.#removed = shared.made.catch(() => {}).then(() => this.#remove());
  }

  async #make(): Promise<Made> {
    this.#authority ??= Authority.create();
    const folder = dirname(this.#bundlePath);
    const [authority, files] = await Promise.all([
      this.#authority,
      authorityFiles(this.#env),
      this.#removed,
      removeOrphans(dirname(folder)),
    ]);
    const trust = trustIn(files);
    const bundle = [...programTrust(files), authority.certificate];
    process.once('exit', this.#removeOnExit);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // `x` fails if the file exists: another process could have placed a link there to have something else overwritten.
    const file = await open(this.#bundlePath, 'wx', 0o644);
    try {
      await file.writeFile(bundle.join('\n'));
      return { authority, trust, identity: identityOf(await file.stat({ bigint: true })) };
    } finally {
      await file.close();
    }
  }

  /** A program that may write there could make other programs trust its own authority. */
  async #checkUnchanged(identity: string): Promise<void> {
    const found = await lstat(this.#bundlePath, { bigint: true }).then(identityOf, () => null);
    if (found !== identity) throw new Error(`${this.#bundlePath} was changed or removed by another process`);
  }

  /** Removes the parent folder only when it is empty, because other servers use it too. */
  async #remove(): Promise<void> {
    const folder = dirname(this.#bundlePath);
    await rm(folder, { recursive: true, force: true }).catch(() => {});
    await rmdir(dirname(folder)).catch(() => {});
    process.off('exit', this.#removeOnExit);
  }

  /** Synchronous, because an exiting process does not wait. */
  readonly #removeOnExit = (): void => rmSync(dirname(this.#bundlePath), { recursive: true, force: true });

  /** Keeps variables that the program's request sets. Replaces values inherited from the server, whose certificates are in the bundle. */
  #variables(env: Readonly<Record<string, string>>): Record<string, string> {
    const isFree = (name: string) => !env[name] || env[name] === this.#env[name];
    return Object.fromEntries(BUNDLE_VARIABLES.filter(isFree).map((name) => [name, this.#bundlePath]));
  }
}

interface Made extends Pick<InterceptionLease, 'authority' | 'trust'> {
  /** Of the file as it was written. */
  readonly identity: string;
}

interface Shared {
  readonly made: Promise<Made>;
  holders: number;
}

/** Differs for another file and for the same file with other contents. */
function identityOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join();
}

/** Variables from which programs and libraries read the CA bundle. */
const BUNDLE_VARIABLES = [
  'CODEX_CA_CERTIFICATE',
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'NODE_EXTRA_CA_CERTS',
  'GIT_SSL_CAINFO',
  'CARGO_HTTP_CAINFO',
  'PIP_CERT',
  'BUNDLE_SSL_CA_CERT',
  'npm_config_cafile',
  'NPM_CONFIG_CAFILE',
];

/** The certificates that programs on this machine trust anyway, and those that the server is configured to trust, in PEM. */
function programTrust({ system, added }: AuthorityFiles): readonly string[] {
  // Node's own if the system has none.
  return [
    ...(system === null ? rootCertificates : certificatesIn(system)),
    ...certificatesIn(added?.text ?? ''),
  ];
}

/** Only the certificates of a file, which may also contain keys. */
function certificatesIn(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
}
