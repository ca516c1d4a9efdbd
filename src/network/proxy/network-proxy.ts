import { once, setMaxListeners } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { Owner } from '../../base/fair-shares.ts';
import type { NetworkProxySettings } from '../../protocol/network.ts';
import { closeServers } from '../close-servers.ts';
import { NetworkError } from '../errors.ts';
import { Admission, type PolicyPeer } from './admission.ts';
import { Credentials } from './credentials.ts';
import { HostPolicy } from './host-policy.ts';
import { createHttpProxy } from './http-proxy.ts';
import { Interception } from './interception/interception.ts';
import type { InterceptionLease } from './interception/interception-certificates.ts';
import { CredentialMasks } from './masking/credential-masks.ts';
import { proxyEnvironment, withoutCredentialHosts } from './proxy-environment.ts';
import type { ProxyResources } from './proxy-resources.ts';
import { createSocks5Proxy } from './socks5-proxy.ts';
import { UdpAssociations } from './udp-associations.ts';

/** Options of a proxy. */
export interface NetworkProxyOptions {
  readonly settings: NetworkProxySettings;
  readonly resources: ProxyResources;
  readonly peer: PolicyPeer;
  /** The session of the program. What the proxy uses of shared resources counts for it. */
  readonly owner: Owner;
  /** Required if the settings mask credentials; released after the proxy is closed. */
  readonly lease?: InterceptionLease | null;
}

/**
 * The proxy of one program. Forwards what the settings allow and what the client allows on request. On ports of this machine it
 * requires the password in the program's environment. On ports of the program's own network namespace it needs none, because no
 * other program can connect to them.
 */
export class NetworkProxy {
  /** The variables that make the program use the proxy. */
  readonly environment: Readonly<Record<string, string>>;
  readonly #masked: Masked | null;
  readonly #servers: readonly Server[];
  readonly #sockets = new Set<Socket>();
  readonly #closing: AbortController;
  readonly #removePorts: readonly (() => void)[];

  private constructor(
    { servers, closing, masked }: Listeners,
    { resources, owner }: Pick<NetworkProxyOptions, 'resources' | 'owner'>,
    environment: Readonly<Record<string, string>>,
    removePorts: readonly (() => void)[] = [],
  ) {
    this.#servers = servers;
    this.#closing = closing;
    this.#masked = masked;
    this.environment = environment;
    this.#removePorts = removePorts;
    for (const server of servers) {
      server.on('connection', (socket: Socket) => {
        if (!resources.admitConnection(socket, owner)) return;
        this.#sockets.add(socket);
        socket.once('close', () => this.#sockets.delete(socket));
      });
    }
  }

  /** Listens on free ports of 127.0.0.1. Rejects with NetworkError when the settings are not supported. */
  static async open(options: NetworkProxyOptions): Promise<NetworkProxy> {
    const credentials = new Credentials();
    const listeners = createListeners(options, credentials, options.settings.enableSocks5Udp);
    const ports: number[] = [];
    try {
      for (const server of listeners.servers) {
        server.listen({ port: 0, host: '127.0.0.1' });
        await once(server, 'listening');
        ports.push((server.address() as AddressInfo).port);
      }
    } catch (error) {
      for (const server of listeners.servers) server.close();
      throw new NetworkError('failed', `the proxy cannot listen: ${(error as Error).message}`, {
        cause: error,
      });
    }
    const environment = environmentFor(options.settings, ports, credentials.userinfo);
    return new NetworkProxy(
      listeners,
      options,
      environment,
      ports.map((port) => options.resources.serverPorts.add(port)),
    );
  }

  /**
   * Creates a proxy for a program in its own network namespace. {@link serve} gets sockets that listen on `ports` of 127.0.0.1 in
   * there. UDP is refused, because datagrams would have to reach this machine. Throws NetworkError when the settings are not supported.
   */
  static sandboxed(options: NetworkProxyOptions): {
    readonly proxy: NetworkProxy;
    readonly ports: readonly number[];
  } {
    const listeners = createListeners(options, null, false);
    const ports = SANDBOX_PORTS.slice(0, listeners.servers.length);
    const environment = environmentFor(options.settings, ports, '');
    return { proxy: new NetworkProxy(listeners, options, environment), ports };
  }

  /**
   * The program's environment with the proxy's variables, and with masked credentials if the settings ask for that. Can be called
   * again with its own result. Throws NetworkError when some credentials cannot be masked.
   */
  environmentOver(env: Readonly<Record<string, string>>): Record<string, string> {
    if (this.#masked === null) return { ...env, ...this.environment };
    const { masks, lease } = this.#masked;
    const covered = masks.cover(env);
    return {
      ...covered,
      ...this.environment,
      ...withoutCredentialHosts(this.environment, masks),
      ...lease.variables(env),
    };
  }

  /** Serves listening sockets, in the order of the ports, and owns them from then on. */
  async serve(descriptors: readonly number[]): Promise<void> {
    await Promise.all(
      this.#servers.map((server, index) => {
        server.listen({ fd: descriptors[index]! });
        return once(server, 'listening');
      }),
    );
  }

  /** Closes all connections and cancels policy requests. */
  async close(): Promise<void> {
    for (const remove of this.#removePorts) remove();
    this.#closing.abort();
    await closeServers(this.#servers, this.#sockets);
  }
}

/** The HTTP server and, if enabled, the SOCKS5 server. */
interface Listeners {
  readonly servers: readonly Server[];
  readonly closing: AbortController;
  /** Null without credential masking. */
  readonly masked: Masked | null;
}

interface Masked {
  readonly masks: CredentialMasks;
  readonly lease: InterceptionLease;
}

function createListeners(
  { settings, resources, peer, owner, lease = null }: NetworkProxyOptions,
  credentials: Credentials | null,
  withUdp: boolean,
): Listeners {
  const policy = checkedPolicy(settings);
  const masked = maskedCredentials(settings, lease);
  const closing = new AbortController();
  // Every connection adds a listener; their number is bounded.
  setMaxListeners(0, closing.signal);
  const { serverPorts, via } = resources;
  const resolve = (name: string) => resources.resolve(name, owner);
  const { mode } = settings;
  const admission = new Admission({ policy, mode, peer, resolve, serverPorts });
  const interception = masked && new Interception({ admission, mode, via, ...masked });
  const shared = { admission, credentials, interception, closing: closing.signal };
  const http = createHttpProxy({ ...shared, via });
  if (!settings.enableSocks5) return { servers: [http], closing, masked };
  const udp = withUdp ? new UdpAssociations(admission) : null;
  return { servers: [http, createSocks5Proxy({ ...shared, udp })], closing, masked };
}

function checkedPolicy(settings: NetworkProxySettings): HostPolicy {
  const invalid = (message: string) => new NetworkError('invalid', `networkProxy: ${message}`);
  if (!settings.enabled) throw invalid('a disabled proxy cannot be started; omit it');
  const sockets = Object.entries(settings.unixSockets ?? {});
  if (sockets.some(([path, permission]) => permission === 'allow' && !/^\/[^\0]*$/.test(path))) {
    throw invalid('an allowed unix socket needs an absolute path without NUL');
  }
  return new HostPolicy(settings);
}

function maskedCredentials(
  { credentialMasking, credentialProviders }: NetworkProxySettings,
  lease: InterceptionLease | null,
): Masked | null {
  if (!credentialMasking) return null;
  if (lease === null) throw new NetworkError('failed', 'networkProxy: credentials cannot be masked here');
  try {
    return { masks: new CredentialMasks(credentialProviders), lease };
  } catch (error) {
    throw new NetworkError('invalid', `networkProxy: ${(error as Error).message}`, { cause: error });
  }
}

function environmentFor(
  { allowLocalBinding }: NetworkProxySettings,
  [http, socks]: readonly number[],
  userinfo: string,
): Readonly<Record<string, string>> {
  const urls = {
    http: `http://${userinfo}127.0.0.1:${http}`,
    socks: socks === undefined ? null : `socks5h://${userinfo}127.0.0.1:${socks}`,
  };
  return proxyEnvironment(urls, allowLocalBinding);
}

/** Ports in a namespace with only one program: above the ephemeral range, and not used by well-known programs. */
const SANDBOX_PORTS = [61_328, 61_080];
