import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Decision, PolicyPeer } from '../../../../src/network/proxy/admission.ts';
import { NetworkProxy } from '../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import type {
  NetworkPolicyDecision,
  NetworkPolicyRequest,
  NetworkProxySettings,
} from '../../../../src/protocol/network.ts';
import { CLOSED_PROXY } from '../../../support/proxy-settings.ts';

/** Settings of a proxy that allows nothing, with changes. */
export function settings(changes: Partial<NetworkProxySettings> = {}): NetworkProxySettings {
  return {
    ...CLOSED_PROXY,
    reviewDomains: [],
    credentialMasking: false,
    credentialProviders: {},
    ...changes,
  };
}

/** A name server; `rebind.test` resolves to another address after the first lookup. */
export class Names {
  readonly asked: string[] = [];
  readonly #names: Readonly<Record<string, readonly string[]>>;

  constructor(names: Readonly<Record<string, readonly string[]>> = {}) {
    this.#names = names;
  }

  resolve = async (name: string): Promise<readonly string[]> => {
    this.asked.push(name);
    if (name === 'rebind.test') return this.asked.length === 1 ? ['127.0.0.2'] : ['127.0.0.1'];
    const addresses = this.#names[name];
    if (addresses === undefined) throw new Error('ENOTFOUND');
    return addresses;
  };
}

/** A proxy and its environment. Closed by {@link closeFixtures}. */
export interface ProxyFixture {
  readonly proxy: NetworkProxy;
  readonly host: ProxyResources;
  readonly names: Names;
  readonly decisions: Decision[];
  readonly policyRequests: NetworkPolicyRequest[];
  readonly httpPort: number;
  readonly socksPort: number;
  readonly user: string;
  readonly password: string;
  /** The proxy-authorization header. */
  readonly authorization: string;
}

const open: { close(): Promise<unknown> }[] = [];

export async function closeFixtures(): Promise<void> {
  await Promise.all(open.splice(0).map((each) => each.close()));
}

export interface FixtureOptions {
  readonly names?: Names;
  readonly host?: ProxyResources;
  readonly owner?: object;
  answer?(policyRequest: NetworkPolicyRequest, signal: AbortSignal): Promise<NetworkPolicyDecision>;
}

export async function openFixture(
  changes: Partial<NetworkProxySettings> = {},
  { names = new Names(), host = new ProxyResources(names.resolve), owner = {}, answer }: FixtureOptions = {},
): Promise<ProxyFixture> {
  const decisions: Decision[] = [];
  const policyRequests: NetworkPolicyRequest[] = [];
  const peer: PolicyPeer = {
    decided: (decision) => decisions.push(decision),
    ask:
      answer === undefined
        ? null
        : (policyRequest, signal) => {
            policyRequests.push(policyRequest);
            return answer(policyRequest, signal);
          },
  };
  const proxy = await NetworkProxy.open({ settings: settings(changes), resources: host, peer, owner });
  open.push(proxy);
  const { HTTP_PROXY = '', ALL_PROXY = '' } = proxy.environment;
  const { port, username, password } = new URL(HTTP_PROXY);
  return {
    proxy,
    host,
    names,
    decisions,
    policyRequests,
    httpPort: Number(port),
    socksPort: Number(new URL(ALL_PROXY).port),
    user: username,
    password,
    authorization: `Proxy-Authorization: Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
  };
}

/** A request that a web server received. */
export interface Received {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** A web server on 127.0.0.1 that records its requests. */
export interface WebServer {
  readonly port: number;
  readonly received: Received[];
  readonly server: Server;
}

export async function openWebServer(
  respond: (
    request: IncomingMessage,
    body: string,
  ) => { status?: number; headers?: string[]; body?: string } = () => ({}),
): Promise<WebServer> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part) => parts.push(part));
    request.on('error', () => {});
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      received.push({
        method: request.method ?? '',
        url: request.url ?? '',
        rawHeaders: request.rawHeaders,
        body,
      });
      const answer = respond(request, body);
      const content = answer.body ?? 'from upstream';
      const length = ['Content-Length', String(content.length)];
      response.writeHead(answer.status ?? 200, [...(answer.headers ?? []), ...length]);
      response.end(content);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  return { port: (server.address() as AddressInfo).port, received, server };
}

/** Sends bytes and returns everything received until the other side closes or `enough` is satisfied. */
export function exchange(
  port: number,
  parts: readonly (string | Buffer)[],
  enough: (text: string) => boolean = () => false,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    let next = 0;
    const sendNext = () => {
      const part = parts[next++];
      if (part !== undefined) socket.write(part);
    };
    const done = () => {
      socket.destroy();
      resolve(text);
    };
    socket.on('connect', sendNext);
    socket.on('data', (data) => {
      text += data.toString('latin1');
      if (enough(text)) done();
      else sendNext();
    });
    socket.on('end', done);
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' ? done() : reject(error),
    );
    socket.on('close', done);
  });
}

/** Sends one raw HTTP request that closes the connection, and returns the response as text. */
export function ask(fixture: ProxyFixture, head: string, body = ''): Promise<string> {
  const [first = '', ...rest] = head.split('\n').map((line) => line.trim());
  const lines = [first, fixture.authorization, 'Connection: close', ...rest];
  return exchange(fixture.httpPort, [`${lines.join('\r\n')}\r\n\r\n${body}`]);
}

/** A plain GET through the proxy. */
export function get(fixture: ProxyFixture, authority: string): Promise<string> {
  return ask(fixture, `GET http://${authority}/ HTTP/1.1\nHost: ${authority}`);
}

/** The JSON body of a blocked request. */
export function blockOf(answer: string): Record<string, unknown> {
  return JSON.parse(answer.split('\r\n\r\n')[1] ?? '');
}
