import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { FairSemaphore } from '../../base/fair-semaphore.ts';
import { FairShares, type Owner } from '../../base/fair-shares.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { isOwnAddress } from './addresses.ts';
import type { InterceptionCertificates } from './interception/interception-certificates.ts';
import { ownedFolderName } from './interception/owned-folders.ts';
import {
  DESCRIPTORS_PER_CONNECTION,
  LOOKUP_CONCURRENCY,
  LOOKUP_TIMEOUT_MS,
  MAX_WAITING_LOOKUPS,
} from './limits.ts';

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
  /** The descriptors that all sessions share. Each connection of a program takes two: its own and that to the destination. */
  readonly descriptors: FairShares;
  #bundlePath: string | null = null;

  constructor(
    resolve: Resolve = systemLookup(),
    env: ServerVariables = process.env,
    descriptors = new FairShares(Number.POSITIVE_INFINITY),
  ) {
    this.resolve = resolve;
    this.env = env;
    this.descriptors = descriptors;
  }

  /** Counts a connection of a program of `owner` until it closes. Closes it when the owner's share of descriptors is used up. */
  admitConnection(socket: Socket, owner: Owner): boolean {
    const taken = this.descriptors.take(owner, DESCRIPTORS_PER_CONNECTION);
    if (taken === null) socket.destroy();
    else socket.once('close', () => taken.leave(owner));
    return taken !== null;
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

/** Resolves a name to addresses. The lookups of one owner do not delay those of others. */
export type Resolve = (name: string, owner?: Owner) => Promise<readonly string[]>;

/**
 * Resolves names with the system's resolver, a few at a time. A lookup cannot be cancelled: it keeps its slot until the name server
 * responds or the system's timeout passes.
 */
export function systemLookup(): Resolve {
  const lookups = new FairSemaphore(LOOKUP_CONCURRENCY, {
    maxWaiting: MAX_WAITING_LOOKUPS,
    tooManyWaiting: () => new Error('too many names are being resolved'),
  });
  return async (name, owner = {}) => {
    const permit = await lookups.acquire(owner);
    try {
      // Loaded with the first name: every server would hold it in memory, and most run no program with a proxy.
      const { lookup } = await import('node:dns/promises');
      return (await lookup(name, { all: true })).map(({ address }) => address);
    } finally {
      permit.leave(owner);
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
