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

/** What interception needs, for as long as it is lease. */
export interface InterceptionLease {
  readonly authority: Authority;
  /** Whom the web servers have to be vouched for by. */
  readonly trust: SecureContext;
  /** What the program has to trust, over its environment `env`. */
  variables(env: Readonly<Record<string, string>>): Record<string, string>;
  /** To be called once. */
  release(): void;
}

/**
 * What the proxies of a server share to look into connections: an authority, and a file with its certificate and those that programs
 * trust anyway. The file is there as long as somebody needs it.
 */
export class InterceptionCertificates {
  readonly #bundlePath: string;
  readonly #env: ServerVariables;
  #authority: Promise<Authority> | null = null;
  #shared: Shared | null = null;
  /** Settled when what was there before is gone. */
  #cleared: Promise<void> = Promise.resolve();

  constructor(bundlePath: string, env: ServerVariables) {
    this.#bundlePath = bundlePath;
    this.#env = env;
  }

  /** Rejects with NetworkError when that cannot be had; then nothing is left behind. */
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
    this.#cleared = shared.made.catch(() => {}).then(() => this.#remove());
  }

  async #make(): Promise<Made> {
    this.#authority ??= Authority.create();
    const folder = dirname(this.#bundlePath);
    const [authority, files] = await Promise.all([
      this.#authority,
      authorityFiles(this.#env),
      this.#cleared,
      removeOrphans(dirname(folder)),
    ]);
    const trust = trustIn(files);
    const bundle = [...programTrust(files), authority.certificate];
    process.once('exit', this.#removeAtOnce);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // Nobody else can have made it, unless to have something else overwritten.
    const file = await open(this.#bundlePath, 'wx', 0o644);
    try {
      await file.writeFile(bundle.join('\n'));
      return { authority, trust, identity: identityOf(await file.stat({ bigint: true })) };
    } finally {
      await file.close();
    }
  }

  /** A program that may write around it could have others trust whom it likes. */
  async #checkUnchanged(identity: string): Promise<void> {
    const found = await lstat(this.#bundlePath, { bigint: true }).then(identityOf, () => null);
    if (found !== identity) throw new Error(`${this.#bundlePath} was changed or removed by somebody else`);
  }

  /** The folder above is shared with others, who may have something in it. */
  async #remove(): Promise<void> {
    const folder = dirname(this.#bundlePath);
    await rm(folder, { recursive: true, force: true }).catch(() => {});
    await rmdir(dirname(folder)).catch(() => {});
    process.off('exit', this.#removeAtOnce);
  }

  /** A process that ends waits for nothing. */
  readonly #removeAtOnce = (): void => rmSync(dirname(this.#bundlePath), { recursive: true, force: true });

  /** What the program's own request says about a variable stands; what it only has from the server does not: the file has that too. */
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

/** Another one for another file, and for the same with other contents. */
function identityOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join();
}

/** What programs and their libraries read to find out whom to trust. */
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

/** The certificates that programs of this machine trust anyway, and those that the server was told to trust, in PEM. */
export function programTrust({ system, added }: AuthorityFiles): readonly string[] {
  // Node's own where the system keeps none.
  return [
    ...(system === null ? rootCertificates : certificatesIn(system)),
    ...certificatesIn(added?.text ?? ''),
  ];
}

/** Nothing else of a file: there may be keys in it. */
function certificatesIn(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
}
