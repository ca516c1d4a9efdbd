import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Semaphore } from '../../base/semaphore.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { isOwnAddress } from './addresses.ts';
import type { InterceptionCertificates } from './interception/interception-certificates.ts';
import { ownedFolderName } from './interception/owned-folders.ts';
import { LOOKUP_CONCURRENCY, LOOKUP_TIMEOUT_MS, MAX_WAITING_LOOKUPS } from './limits.ts';

/** The variables of the server. */
export type ServerVariables = Readonly<Record<string, string | undefined>>;

/** What all proxies of a server share. */
export class ProxyResources {
  readonly serverPorts = new ServerPorts();
  readonly resolve: Resolve;
  readonly env: ServerVariables;
  /** How this server names itself in `Via`: its own requests are known by it when they come back. */
  readonly via = `exec-server-${randomBytes(8).toString('hex')}`;
  /** Set with the first program whose connections are looked into. */
  interception: InterceptionCertificates | null = null;
  #bundlePath: string | null = null;

  constructor(resolve: Resolve = systemLookup(), env: ServerVariables = process.env) {
    this.resolve = resolve;
    this.env = env;
  }

  /**
   * Where programs find whom to trust while their connections are looked into. It is in the configuration folder, which sandboxes
   * protect where it has its usual name.
   */
  get bundlePath(): string {
    const home = this.env.CODEX_HOME || join(this.env.HOME || homedir(), '.codex');
    this.#bundlePath ??= join(home, 'proxy', ownedFolderName(), 'ca-bundle.pem');
    return this.#bundlePath;
  }
}

/**
 * Ports on this machine that belong to the server: its listeners and its proxies. No proxy connects to them, whatever its patterns
 * allow: a request would run in circles, or a program would use another one's permissions or give orders to the server.
 */
export class ServerPorts {
  readonly #ports = new Map<number, number>();

  /** Adds a port; the returned function removes it. */
  add(port: number): () => void {
    this.#ports.set(port, (this.#ports.get(port) ?? 0) + 1);
    let added = true;
    return () => {
      const count = (this.#ports.get(port) ?? 0) - (added ? 1 : 0);
      added = false;
      if (count > 0) this.#ports.set(port, count);
      else this.#ports.delete(port);
    };
  }

  includes(address: string, port: number): boolean {
    return this.#ports.has(port) && isOwnAddress(address);
  }
}

/** Gives the addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * Resolves names as the system does, a few at a time. A lookup cannot be given up: one that nobody waits for any more keeps its
 * place until the name server answers or the system gives up.
 */
export function systemLookup(): Resolve {
  const lookups = new Semaphore(LOOKUP_CONCURRENCY, {
    maxWaiting: MAX_WAITING_LOOKUPS,
    tooManyWaiting: () => new Error('too many names are being resolved'),
  });
  return async (name) => {
    await lookups.acquire();
    try {
      return (await lookup(name, { all: true })).map(({ address }) => address);
    } finally {
      lookups.release();
    }
  };
}

/** The addresses of a name, or none when it has none or they do not come in time. */
export async function addressesOf(name: string, resolve: Resolve): Promise<readonly string[]> {
  try {
    return await withTimeout(resolve(name), LOOKUP_TIMEOUT_MS, { onTimeout: () => [] });
  } catch {
    return [];
  }
}
