import type { OnReadOpts } from 'node:net';
import { NetworkError } from '../errors.ts';
import type { LenientSocket } from '../failed-writes.ts';
import { type HostPolicy, optionAgainst } from '../http/host-policy.ts';
import { isLoopbackAddress, isMetadataAddress } from '../proxy/addresses.ts';
import { type Host, parseHost } from '../proxy/host.ts';
import { addressesOf, type Resolve, type ServerPorts } from '../proxy/proxy-resources.ts';
import { connectTo, firstToConnect } from '../proxy/tunnel.ts';

/** What a {@link TcpConnector} depends on. In its policy, `allowed` lists the hosts besides the loopback; null is none. */
interface ConnectorOptions {
  readonly policy: HostPolicy;
  readonly resolve: Resolve;
  readonly serverPorts: ServerPorts;
}

/**
 * Opens the sockets of `tcp/connect`. Without configuration it reaches only the loopback addresses of this machine. It connects to the
 * addresses that it has checked and never resolves a name twice.
 */
export class TcpConnector {
  readonly #options: ConnectorOptions;

  constructor(options: ConnectorOptions) {
    this.#options = options;
  }

  /**
   * Opens a paused socket that passes what it reads to `onread`. Also returns its address: Node caches `remoteAddress` when it is first
   * read, and the user of the socket needs its later value. Rejects with NetworkError.
   */
  async connect(
    hostText: string,
    port: number,
    onread: OnReadOpts,
    signal: AbortSignal,
  ): Promise<{ readonly socket: LenientSocket; readonly address: string }> {
    const host = parseHost(hostText);
    if (host === null) {
      throw new NetworkError('invalid', 'tcp/connect: host must be a host name or an IP address');
    }
    const target = `${host.name}:${port}`;
    const addresses = await this.#checkedAddresses(host, port);
    try {
      return await firstToConnect(addresses, signal, async (address) => ({
        socket: await connectTo(address, port, signal, onread),
        address,
      }));
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      throw new NetworkError('failed', `tcp/connect to ${target} failed: ${failureText(reason)}`, {
        cause: error,
      });
    }
  }

  /** The addresses that may be connected to. Rejects with NetworkError when there is none. */
  async #checkedAddresses(host: Host, port: number): Promise<readonly string[]> {
    const candidates = await this.#candidates(host);
    const open: string[] = [];
    let refusal: NetworkError | null = null;
    for (const address of candidates) {
      const option = this.#optionAgainst(address, port);
      if (option === null) open.push(address);
      else refusal = refused(host, port, option);
    }
    if (open.length === 0) {
      throw (
        refusal ??
        new NetworkError('failed', `tcp/connect to ${host.name}:${port} failed: the name has no address`)
      );
    }
    return open;
  }

  async #candidates(host: Host): Promise<readonly string[]> {
    const { policy, resolve } = this.#options;
    if (optionAgainst(policy, host.name) === 'httpDeniedHosts') throw refused(host, null, 'httpDeniedHosts');
    // This name is never looked up: a resolver might give it another address (RFC 6761, section 6.3).
    if (host.name === 'localhost') return LOOPBACK_ADDRESSES;
    const isLoopback = host.address !== null && isLoopbackAddress(host.address);
    // A name that is not listed is not even looked up, because a lookup can carry data to a name server.
    if (!isLoopback && !policy.allowed?.covers(host)) throw refused(host, null, 'tcpAllowedHosts');
    return host.address === null ? addressesOf(host.name, resolve) : [host.address];
  }

  /** Why an address must not be connected to, as the name of a setting or a clause; null when it may be. */
  #optionAgainst(address: string, port: number): string | null {
    const { policy, serverPorts } = this.#options;
    const plain = address.split('%')[0] ?? '';
    const listed = policy.allowed?.names({ name: plain, address: plain }) ?? false;
    if (serverPorts.includes(plain, port)) return SERVER_PORT;
    if (isMetadataAddress(plain) && !listed) return METADATA;
    return optionAgainst(policy, plain);
  }
}

const LOOPBACK_ADDRESSES = ['127.0.0.1', '::1'];
const SERVER_PORT = 'the port belongs to this server';
const METADATA =
  'link-local addresses and metadata services of clouds must be listed in tcpAllowedHosts by their exact address';

function refused(host: Host, port: number | null, why: string): NetworkError {
  const target = port === null ? host.name : `${host.name}:${port}`;
  const reason = EXPLAINED[why] ?? why;
  return new NetworkError('refused', `tcp/connect is not allowed to reach ${target}: ${reason}`);
}

const EXPLAINED: Readonly<Record<string, string>> = {
  tcpAllowedHosts:
    "only this machine's loopback addresses are allowed, and the hosts that the server lists (tcpAllowedHosts)",
  httpDeniedHosts: "the server's configuration says so (httpDeniedHosts)",
  httpPrivateAddresses: "the server's configuration says so (httpPrivateAddresses)",
};

/** Describes why a socket failed, for clients. */
export function failureText(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return (code !== undefined && FAILURES[code]) || message;
}

const FAILURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused; no program listens on this port',
  ECONNRESET: 'the peer reset the connection',
  EPIPE: 'the peer closed the connection',
  ETIMEDOUT: 'the peer does not respond',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
};
