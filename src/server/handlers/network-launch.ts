import { LoopbackBridge } from '../../network/bridge/loopback-bridge.ts';
import { loopbackProxyPorts } from '../../network/bridge/proxy-endpoints.ts';
import { NetworkProxy } from '../../network/proxy/network-proxy.ts';
import { DescriptorMailbox } from '../../process/spawn/descriptor-mailbox.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import { type ProxyServices, proxyOptions } from './network-proxy.ts';

/** What a start says about the network. */
export interface NetworkRequest {
  readonly processId: string;
  /** The program's environment before any proxy is in it. */
  readonly env: Readonly<Record<string, string>>;
  readonly networkProxy: NetworkProxyLaunch | null;
  /** Whether the program is confined to a network of its own in which it finds its proxy and nothing else. */
  readonly enclosed: boolean;
}

/** Where the sockets are wanted on which an enclosed program finds its proxy; the sandbox has them sent. */
export interface WantedSockets {
  readonly ports: readonly number[];
  /** A unix socket for the launcher to inherit. */
  readonly mailbox: number;
}

/** The network of one program, from before its start until after its end. */
export interface ProgramNetwork {
  /** Variables to lay over the program's environment. */
  readonly environment: Readonly<Record<string, string>>;
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
  const { processId, env, networkProxy, enclosed } = request;
  const options = networkProxy === null ? null : proxyOptions(processId, networkProxy, services, serverEnv);
  if (!enclosed)
    return options === null ? null : sharedNetwork(await NetworkProxy.open(options), request, services);
  if (options !== null) {
    const { proxy, ports } = NetworkProxy.enclosed(options);
    return enclosedNetwork(proxy.environment, ports, request, services, {
      serve: (descriptors) => proxy.serve(descriptors),
      close: () => proxy.close(),
    });
  }
  const ports = loopbackProxyPorts(env);
  const bridge = new LoopbackBridge(services.proxies.ownPorts);
  return enclosedNetwork({}, ports, request, services, {
    serve: (descriptors) => bridge.serve(ports, descriptors),
    close: () => bridge.close(),
  });
}

function sharedNetwork(
  proxy: NetworkProxy,
  { processId }: NetworkRequest,
  { policyDecisions }: ProxyServices,
): ProgramNetwork {
  return {
    environment: proxy.environment,
    sockets: null,
    started: () => {},
    close: () => {
      void proxy.close();
      policyDecisions.end(processId);
    },
  };
}

/** What answers on the sockets. */
interface Attendant {
  serve(descriptors: readonly number[]): Promise<void>;
  close(): Promise<void>;
}

async function enclosedNetwork(
  environment: Readonly<Record<string, string>>,
  ports: readonly number[],
  { processId }: NetworkRequest,
  { policyDecisions }: ProxyServices,
  attendant: Attendant,
): Promise<ProgramNetwork> {
  // Native code is loaded when it is first needed.
  const { loadDescriptorPassing } = await import('../../process/spawn/native/descriptor-passing.ts');
  const mailbox = new DescriptorMailbox(loadDescriptorPassing());
  const ending = new AbortController();
  let serving: Promise<void> = Promise.resolve();
  return {
    environment,
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
