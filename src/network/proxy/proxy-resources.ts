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

/** The environment variables of the server. */
export type ServerVariables = Readonly<Record<string, string | undefined>>;

/** Shared by all proxies of a server. */
export class ProxyResources {
  readonly serverPorts = new ServerPorts();
  readonly resolve: Resolve;
  readonly env: ServerVariables;
  /** This server's name in `Via`, by which it recognises its own requests when they come back. */
  readonly via = `exec-server-${randomBytes(8).toString('hex')}`;
  /** Created for the first program whose connections are intercepted. */
  interception: InterceptionCertificates | null = null;
  #bundlePath: string | null = null;

  constructor(resolve: Resolve = systemLookup(), env: ServerVariables = process.env) {
    this.resolve = resolve;
    this.env = env;
  }

  /**
   * Path of the CA bundle for programs whose connections are intercepted. It is in the configuration folder, which sandboxes protect
   * under its usual name.
   */
  get bundlePath(): string {
    const home = this.env.CODEX_HOME || join(this.env.HOME || homedir(), '.codex');
    this.#bundlePath ??= join(home, 'proxy', ownedFolderName(), 'ca-bundle.pem');
    return this.#bundlePath;
  }
}

/**
 * Ports of this machine that belong to the server: its listeners and its proxies. No proxy connects to them, whatever its patterns
 * allow. Otherwise requests could loop, and a program could use another program's permissions or control the server.
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

/** Resolves a name to addresses. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * Resolves names with the system's resolver, a few at a time. A lookup cannot be cancelled: it keeps its slot until the name server
 * responds or the system's timeout passes.
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

/** The addresses of a name; none when it has none or the lookup times out. */
export async function addressesOf(name: string, resolve: Resolve): Promise<readonly string[]> {
  try {
    return await withTimeout(resolve(name), LOOKUP_TIMEOUT_MS, { onTimeout: () => [] });
  } catch {
    return [];
  }
}
