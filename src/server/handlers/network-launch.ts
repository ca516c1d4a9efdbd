import { LoopbackBridge, loopbackProxyPorts } from '../../network/loopback-bridge.ts';
import {
  InterceptionCertificates,
  type InterceptionLease,
} from '../../network/proxy/interception/interception-certificates.ts';
import { NetworkProxy, type NetworkProxyOptions } from '../../network/proxy/network-proxy.ts';
import type { ProxyResources } from '../../network/proxy/proxy-resources.ts';
import { DescriptorMailbox } from '../../process/spawn/descriptor-mailbox.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import { type ProxyServices, proxyOptions } from './network-proxy.ts';

type Environment = Readonly<Record<string, string>>;

/** What a start says about the network. */
export interface NetworkRequest {
  readonly processId: string;
  /** The program's environment before any proxy is in it. */
  readonly env: Readonly<Record<string, string>>;
  readonly networkProxy: NetworkProxyLaunch | null;
  /** Whether the program is restricted to a network of its own in which it finds its proxy and nothing else. */
  readonly sandboxed: boolean;
}

/** Where the sockets are wanted on which a sandboxed program finds its proxy; the sandbox has them sent. */
export interface WantedSockets {
  readonly ports: readonly number[];
  /** A unix socket for the launcher to inherit. */
  readonly mailbox: number;
}

/** The network of one program, from before its start until after its end. */
export interface ProgramNetwork {
  /**
   * The environment of the program in this network, made from the one it would have had or from what came of that. Throws NetworkError
   * when it holds more than can be masked.
   */
  environmentOver(env: Environment): Environment;
  /** Null for a program that shares the network of this machine. */
  readonly sockets: WantedSockets | null;
  /** To be called once the program has been executed. A program whose sockets do not come has no network; that is told by `lost`. */
  started(lost: (error: Error) => void): void;
  /** To be called when the program has ended, or could not be started. */
  close(): void;
}

/**
 * Makes the network that a start asks for; null when it asks for nothing. Rejects with RpcError or NetworkError when that cannot be
 * honoured.
 */
export async function openNetwork(
  request: NetworkRequest,
  services: ProxyServices,
  serverEnv: Readonly<Record<string, string | undefined>>,
): Promise<ProgramNetwork | null> {
  const { processId, env, networkProxy, sandboxed } = request;
  if (networkProxy !== null) {
    const options = proxyOptions(processId, networkProxy, services, serverEnv);
    const lease = networkProxy.proxy.credentialMasking ? await leaseInterception(services.proxies) : null;
    try {
      const proxied = { ...options, lease };
      if (!sandboxed) return sharedNetwork(await NetworkProxy.open(proxied), lease, request, services);
      return await proxiedNetwork(proxied, lease, request, services);
    } catch (error) {
      lease?.release();
      throw error;
    }
  }
  if (!sandboxed) return null;
  const ports = loopbackProxyPorts(env);
  const bridge = new LoopbackBridge(services.proxies.serverPorts);
  return sandboxedNetwork((given) => given, ports, request, services, {
    serve: (descriptors) => bridge.serve(ports, descriptors),
    close: () => bridge.close(),
  });
}

function leaseInterception(proxies: ProxyResources): Promise<InterceptionLease> {
  proxies.interception ??= new InterceptionCertificates(proxies.bundlePath, proxies.env);
  return proxies.interception.acquire();
}

function sharedNetwork(
  proxy: NetworkProxy,
  lease: InterceptionLease | null,
  { processId }: NetworkRequest,
  { policyDecisions }: ProxyServices,
): ProgramNetwork {
  return {
    environmentOver: (env) => proxy.environmentOver(env),
    sockets: null,
    started: () => {},
    close: () => {
      void proxy.close();
      lease?.release();
      policyDecisions.end(processId);
    },
  };
}

function proxiedNetwork(
  options: NetworkProxyOptions,
  lease: InterceptionLease | null,
  request: NetworkRequest,
  services: ProxyServices,
): Promise<ProgramNetwork> {
  const { proxy, ports } = NetworkProxy.sandboxed(options);
  return sandboxedNetwork((env) => proxy.environmentOver(env), ports, request, services, {
    serve: (descriptors) => proxy.serve(descriptors),
    close: async () => {
      lease?.release();
      await proxy.close();
    },
  });
}

/** What answers on the sockets. */
interface Attendant {
  serve(descriptors: readonly number[]): Promise<void>;
  close(): Promise<void>;
}

async function sandboxedNetwork(
  environmentOver: ProgramNetwork['environmentOver'],
  ports: readonly number[],
  { processId }: NetworkRequest,
  { policyDecisions }: ProxyServices,
  attendant: Attendant,
): Promise<ProgramNetwork> {
  // Native code is loaded when it is first needed.
  const { loadDescriptorPassing } = await import('../../native/descriptor-passing.ts');
  const mailbox = new DescriptorMailbox(loadDescriptorPassing());
  const ending = new AbortController();
  let serving: Promise<void> = Promise.resolve();
  return {
    environmentOver,
    sockets: { ports, mailbox: mailbox.theirs },
    started: (lost) => {
      serving = mailbox
        .receive(ports.length, ending.signal)
        .then((descriptors) => attendant.serve(descriptors))
        .catch((error: Error) => {
          if (!ending.signal.aborted) lost(error);
        });
    },
    close: () => {
      ending.abort();
      mailbox.discard();
      void serving.then(() => attendant.close());
      policyDecisions.end(processId);
    },
  };
}
