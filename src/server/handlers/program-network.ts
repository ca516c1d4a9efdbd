import type { Owner } from '../../base/fair-shares.ts';
import { LoopbackBridge, loopbackProxyPorts } from '../../network/loopback-bridge.ts';
import type { PolicyPeer } from '../../network/proxy/admission.ts';
import {
  InterceptionCertificates,
  type InterceptionLease,
} from '../../network/proxy/interception/interception-certificates.ts';
import { MAX_POLICY_PROCESS_ID_BYTES } from '../../network/proxy/limits.ts';
import { NetworkProxy, type NetworkProxyOptions } from '../../network/proxy/network-proxy.ts';
import type { ProxyResources } from '../../network/proxy/proxy-resources.ts';
import { DescriptorMailbox } from '../../process/spawn/descriptor-mailbox.ts';
import { invalidParams } from '../../protocol/errors.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import type { PolicyDecisions } from '../sessions/policy-decisions.ts';
import type { PolicyRequests } from '../sessions/policy-requests.ts';

type Environment = Readonly<Record<string, string>>;

/** The network that a start asks for. */
interface NetworkRequest {
  readonly processId: string;
  /** The program's environment without the variables of a proxy. */
  readonly env: Environment;
  readonly networkProxy: NetworkProxyLaunch | null;
  /** Whether the program runs in its own network namespace, in which it reaches its proxy and nothing else. */
  readonly sandboxed: boolean;
}

/** What the proxies of a session's programs work with. */
interface ProxyServices {
  /** Shared by the whole server. `serverPorts` must contain the ports that the server listens on. */
  readonly proxies: ProxyResources;
  /** The session. */
  readonly owner: Owner;
  readonly policyRequests: PolicyRequests;
  readonly policyDecisions: PolicyDecisions;
}

/** The listening sockets that a sandboxed program's launcher opens in its network namespace and sends to the server. */
interface ProxySockets {
  readonly ports: readonly number[];
  /** A unix socket that the launcher inherits and sends the listening sockets through. */
  readonly mailbox: number;
}

/** Serves the program's proxy connections. */
interface ProxyBackend {
  environmentOver(env: Environment): Environment;
  /** Accepts connections on listening sockets that the launcher has sent. */
  serve(descriptors: readonly number[]): Promise<void>;
  close(): Promise<void>;
}

/** The network of one program. It is opened before the program starts and closed after its end. */
export class ProgramNetwork {
  /** Null for a program that shares the network of this machine. */
  readonly sockets: ProxySockets | null;
  readonly #backend: ProxyBackend;
  readonly #lease: InterceptionLease | null;
  readonly #mailbox: DescriptorMailbox | null;
  readonly #reportEnd: () => void;
  readonly #ending = new AbortController();
  #serving: Promise<void> = Promise.resolve();

  /**
   * Opens the network that a start asks for; null when it asks for none. Rejects with RpcError or NetworkError when the request
   * cannot be honoured.
   */
  static async open(
    request: NetworkRequest,
    services: ProxyServices,
    serverEnv: Readonly<Record<string, string | undefined>>,
  ): Promise<ProgramNetwork | null> {
    const reportEnd = () => services.policyDecisions.end(request.processId);
    if (request.networkProxy !== null) {
      return await openProxied(request, request.networkProxy, services, serverEnv, reportEnd);
    }
    if (!request.sandboxed) return null;
    const ports = loopbackProxyPorts(request.env);
    const bridge = new LoopbackBridge(services.proxies, services.owner);
    const backend: ProxyBackend = {
      environmentOver: (env) => env,
      serve: (descriptors) => bridge.serve(ports, descriptors),
      close: () => bridge.close(),
    };
    return new ProgramNetwork(backend, null, { ports, mailbox: await openMailbox() }, reportEnd);
  }

  constructor(
    backend: ProxyBackend,
    lease: InterceptionLease | null,
    sockets: { readonly ports: readonly number[]; readonly mailbox: DescriptorMailbox } | null,
    reportEnd: () => void,
  ) {
    this.#backend = backend;
    this.#lease = lease;
    this.#mailbox = sockets?.mailbox ?? null;
    this.#reportEnd = reportEnd;
    this.sockets = sockets && { ports: sockets.ports, mailbox: sockets.mailbox.theirs };
  }

  /** Adds the proxy variables to an environment. Throws NetworkError when `env` has more credentials than can be masked. */
  environmentOver(env: Environment): Environment {
    return this.#backend.environmentOver(env);
  }

  /**
   * Begins to serve a sandboxed program that has been executed. `lost` is called when its sockets do not arrive; the program has no
   * network then.
   */
  started(lost: (error: Error) => void): void {
    if (this.#mailbox === null || this.sockets === null) return;
    this.#serving = this.#mailbox
      .receive(this.sockets.ports.length, this.#ending.signal)
      .then((descriptors) => this.#backend.serve(descriptors))
      .catch((error: Error) => {
        if (!this.#ending.signal.aborted) lost(error);
      });
  }

  /** Closes the network of a program that has ended or could not be started. */
  close(): void {
    this.#ending.abort();
    this.#mailbox?.discard();
    void this.#closeBackend();
    this.#reportEnd();
  }

  async #closeBackend(): Promise<void> {
    if (this.#mailbox !== null) await this.#serving;
    const closed = this.#backend.close();
    this.#lease?.release();
    await closed;
  }
}

async function openProxied(
  { processId, sandboxed }: NetworkRequest,
  launch: NetworkProxyLaunch,
  services: ProxyServices,
  serverEnv: Readonly<Record<string, string | undefined>>,
  reportEnd: () => void,
): Promise<ProgramNetwork> {
  const options = proxyOptions(processId, launch, services, serverEnv);
  const lease = launch.proxy.credentialMasking ? await leaseInterception(services.proxies) : null;
  try {
    const leased = { ...options, lease };
    if (!sandboxed) return new ProgramNetwork(await NetworkProxy.open(leased), lease, null, reportEnd);
    const { proxy, ports } = NetworkProxy.sandboxed(leased);
    return new ProgramNetwork(proxy, lease, { ports, mailbox: await openMailbox() }, reportEnd);
  } catch (error) {
    lease?.release();
    throw error;
  }
}

function leaseInterception(proxies: ProxyResources): Promise<InterceptionLease> {
  proxies.interception ??= new InterceptionCertificates(proxies.bundlePath, proxies.env);
  return proxies.interception.acquire();
}

async function openMailbox(): Promise<DescriptorMailbox> {
  // Native code is loaded on first use.
  const { loadDescriptorPassing } = await import('../../native/descriptor-passing.ts');
  return new DescriptorMailbox(loadDescriptorPassing());
}

/** The options of a program's proxy. Throws RpcError when the launch cannot be honoured; NetworkProxy checks the settings themselves. */
export function proxyOptions(
  processId: string,
  launch: NetworkProxyLaunch,
  { proxies, owner, policyRequests, policyDecisions }: ProxyServices,
  serverEnv: Readonly<Record<string, string | undefined>>,
): NetworkProxyOptions {
  const { proxy: settings, policyDecisionTimeoutMs: timeoutMs = null } = launch;
  if (timeoutMs === 0) {
    throw invalidParams('params.networkProxy.policyDecisionTimeoutMs: expected more than 0');
  }
  const idBytes = Buffer.byteLength(processId);
  if (timeoutMs !== null && (idBytes === 0 || idBytes > MAX_POLICY_PROCESS_ID_BYTES)) {
    throw invalidParams(
      `params.processId: expected 1 to ${MAX_POLICY_PROCESS_ID_BYTES} bytes where policyDecisionTimeoutMs is given`,
    );
  }
  const upstream = UPSTREAM_VARIABLES.find((name) => (serverEnv[name] ?? '') !== '');
  if (settings.allowUpstreamProxy && upstream !== undefined) {
    throw invalidParams(
      `params.networkProxy.proxy.allowUpstreamProxy: not supported: the proxy in ${upstream} would resolve names again after they were checked`,
    );
  }
  const peer: PolicyPeer = {
    decided: (decision) => policyDecisions.report(processId, decision),
    ask:
      timeoutMs === null
        ? null
        : (request, signal) => policyRequests.send(processId, request, timeoutMs, signal),
  };
  return { settings, resources: proxies, peer, owner };
}

/** Variables that send the server's own requests through a proxy. */
const UPSTREAM_VARIABLES = [
  'HTTP_PROXY',
  'http_proxy',
  'HTTPS_PROXY',
  'https_proxy',
  'ALL_PROXY',
  'all_proxy',
];
