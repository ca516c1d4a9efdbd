import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createPlainServer, type Server } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Decision } from '../../../../../src/network/proxy/admission.ts';
import { InterceptionCertificates } from '../../../../../src/network/proxy/interception/interception-certificates.ts';
import { NetworkProxy } from '../../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../../src/network/proxy/proxy-resources.ts';
import type { NetworkProxySettings } from '../../../../../src/protocol/network.ts';
import { Certificates, pem } from '../../../../support/certificates.ts';
import { settings } from '../proxy-fixture.ts';

const run = promisify(execFile);

export const CREDENTIAL = 'acme_abcdefghijklmnopqrstuvwx';

/** A web server that returns what it receives, with and without TLS. */
export class EchoServers {
  readonly certificates = new Certificates();
  readonly authority = this.certificates.authority('upstream');
  readonly received: {
    readonly line: string;
    readonly rawHeaders: readonly string[];
    readonly body: string;
  }[] = [];
  readonly secure: Server;
  readonly plain: Server;
  readonly #sockets = new Set<Socket>();
  connections = 0;

  constructor() {
    this.secure = createServer(pem(this.certificates.signedBy(this.authority, 'server')));
    this.plain = createPlainServer();
    for (const server of [this.secure, this.plain]) this.#serve(server);
  }

  async listen(): Promise<this> {
    for (const server of [this.secure, this.plain]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    return this;
  }

  get secureUrl(): string {
    return `https://127.0.0.1:${(this.secure.address() as AddressInfo).port}`;
  }

  get plainUrl(): string {
    return `http://127.0.0.1:${(this.plain.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of [this.secure, this.plain]) {
      server.close();
      await once(server, 'close');
    }
    this.certificates.remove();
  }

  #serve(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', () => {
        const body = Buffer.concat(parts).toString();
        this.received.push({
          line: `${request.method} ${request.url}`,
          rawHeaders: request.rawHeaders,
          body,
        });
        const { authorization = '-', 'x-key': key = '-' } = request.headers;
        response.end(`${authorization} ${key} ${body}\n`);
      });
    });
  }
}

/** A proxy with masks, and the environment of its program. */
export interface MaskingFixture {
  readonly proxy: NetworkProxy;
  readonly env: Record<string, string>;
  readonly decisions: Decision[];
  readonly bundlePath: string;
  /** Runs curl as the program. */
  curl(...args: string[]): Promise<string>;
  close(): Promise<void>;
}

export interface MaskingFixtureOptions {
  readonly env?: Record<string, string>;
  /** A CA file that the server trusts; by default the authority of the web servers. */
  readonly serverEnv?: Record<string, string>;
  readonly resolve?: (name: string) => Promise<readonly string[]>;
}

/** Masks {@link CREDENTIAL} for `/v1` of both servers. */
export async function openMaskingFixture(
  servers: EchoServers,
  changes: Partial<NetworkProxySettings> = {},
  { env = { ACME_KEY: CREDENTIAL }, serverEnv, resolve = async () => [] }: MaskingFixtureOptions = {},
): Promise<MaskingFixture> {
  const home = mkdtempSync(join(tmpdir(), 'masked-'));
  const trusted = serverEnv ?? { SSL_CERT_FILE: servers.authority.cert };
  const host = new ProxyResources(resolve, { CODEX_HOME: home, ...trusted });
  const lease = await new InterceptionCertificates(host.bundlePath, host.env).acquire();
  const decisions: Decision[] = [];
  const acme = {
    env: ['ACME_KEY'],
    patterns: ['acme_[a-z]{24}'],
    url_prefixes: [`${servers.secureUrl}/v1`, `${servers.plainUrl}/v1`],
    auth: ['bearer' as const, 'basic' as const, 'header' as const],
    header: 'X-Key',
    prefix: 'K ',
  };
  const proxy = await NetworkProxy.open({
    settings: settings({
      credentialMasking: true,
      domains: { '127.0.0.1': 'allow' },
      credentialProviders: { acme },
      ...changes,
    }),
    resources: host,
    owner: {},
    peer: { decided: (decision) => decisions.push(decision), ask: null },
    lease,
  });
  const program = proxy.environmentOver({ PATH: process.env.PATH ?? '', ...env });
  return {
    proxy,
    env: program,
    decisions,
    bundlePath: host.bundlePath,
    curl: async (...args) => {
      const { stdout } = await run('curl', ['-sS', '-m', '10', ...args], { env: program });
      return stdout;
    },
    close: async () => {
      await proxy.close();
      lease.release();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
