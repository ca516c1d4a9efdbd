import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { type AttemptReport, makeAttempts, slug } from '../support/escape-attempts.ts';
import {
  EscapeFixture,
  type EscapeServer,
  type RunOptions,
  SERVER_USERS,
} from '../support/escape-fixture.ts';
import { HostWitness } from '../support/host-witness.ts';
import { DIRECT, LOCAL, type NetworkAttempt, OWN, TRICKS } from '../support/network-attempts.ts';
import { secureWebServer, type WebServer, webServer } from '../support/web-servers.ts';

type Settings = NonNullable<NonNullable<RunOptions['network']>['networkProxy']>['proxy'];

const NOTHING: Settings = {
  enabled: true,
  enableSocks5: true,
  enableSocks5Udp: true,
  allowUpstreamProxy: false,
  dangerouslyAllowAllUnixSockets: true,
  mode: 'full',
  allowLocalBinding: false,
};
/** Every public host. */
const PUBLIC: Settings = { ...NOTHING, domains: { '*': 'allow' } };
const EVERYTHING: Settings = {
  ...PUBLIC,
  allowLocalBinding: true,
  domains: { '*': 'allow', '127.0.0.1': 'allow', localhost: 'allow', '::1': 'allow', '0.0.0.0': 'allow' },
};
const LOOPBACK: Settings = { ...NOTHING, domains: { '127.0.0.1': 'allow' } };

/** Which attempts arrived; each sends its name. */
function madeBy(name: string, arrived: readonly string[]): readonly string[] {
  const exactly = new RegExp(`[ /]${slug(name)}(?![\\w-])`);
  return arrived.filter((arrival) => exactly.test(arrival));
}

/** Restricted to a proxy with these settings. */
const enforced = (proxy: Settings) => ({ networkProxy: { proxy }, enforceManagedNetwork: true });

/** A server with programs of different permissions, and targets that a program must not reach. */
class NetworkFixture {
  readonly files: EscapeFixture;
  readonly server: EscapeServer;
  readonly witness: HostWitness;
  readonly good: WebServer;
  /** The requests that the allowed server received. */
  readonly asked: string[];
  readonly #sibling: string;

  private constructor(
    files: EscapeFixture,
    server: EscapeServer,
    witness: HostWitness,
    good: WebServer,
    asked: string[],
    sibling: string,
  ) {
    this.files = files;
    this.server = server;
    this.witness = witness;
    this.good = good;
    this.asked = asked;
    this.#sibling = sibling;
  }

  static async open(user: (typeof SERVER_USERS)[number]): Promise<NetworkFixture> {
    const files = new EscapeFixture(user);
    const server = await files.serve();
    const witness = await HostWitness.open(join(files.outside, 'witness'));
    const asked: string[] = [];
    const good = await webServer(({ method, url = '' }, response) => {
      asked.push(`${method} ${url}`);
      const [, location] = /^\/to\?(.*)$/.exec(url) ?? [];
      response.writeHead(location === undefined ? 200 : 302, location === undefined ? {} : { location });
      response.end('good');
    });
    // One on the host network and one sandboxed, both with every permission.
    const script = 'echo "$HTTP_PROXY "; exec sleep 1000';
    const network = { networkProxy: { proxy: EVERYTHING } };
    const shared = await server.start(['/bin/sh', '-c', script], null, { network });
    await server.start(['/bin/sh', '-c', script], files.profile(), { network: enforced(EVERYTHING) });
    await server.said(shared, ' ');
    return new NetworkFixture(
      files,
      server,
      witness,
      good,
      asked,
      server.client.process(shared).text().trim(),
    );
  }

  get env(): Readonly<Record<string, string>> {
    const { port, username, password } = new URL(this.#sibling);
    return {
      ...this.witness.env,
      SERVER: new URL(this.server.url).port,
      GOOD: String(this.good.port),
      SIBLING: port,
      SIBLING_AUTH: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
    };
  }

  attempt(
    attempts: readonly NetworkAttempt[],
    sandbox: SandboxRequest | null,
    network: RunOptions['network'] = {},
    more: Readonly<Record<string, string>> = {},
  ): Promise<AttemptReport> {
    const env = { ...this.env, ...more };
    return makeAttempts(this.files, this.server, attempts, sandbox, { env, network });
  }

  /** Fails for an attempt that arrived, or that got a response other than a rejection. */
  expectHeld(report: AttemptReport, arrived: readonly string[], { name, answered }: NetworkAttempt): void {
    const { raised, output } = report[name]!;
    expect(madeBy(name, arrived)).toEqual([]);
    if (answered !== true) expect(raised).not.toBeNull();
    expect(output).not.toContain('reached');
  }

  async close(): Promise<void> {
    await this.files.end();
    await this.witness.close();
    await this.good.close();
  }
}

// The system call numbers are those of x64.
describe.runIf(process.arch === 'x64').each(SERVER_USERS)('a server run by %s', (user) => {
  let fixture: NetworkFixture;
  beforeAll(async () => {
    fixture = await NetworkFixture.open(user);
  });
  afterAll(() => fixture.close());

  describe('without a sandbox the witness sees', () => {
    let arrived: readonly string[];
    const ways = DIRECT.filter(({ reaches }) => reaches);
    beforeAll(async () => {
      await fixture.attempt(ways, null);
      arrived = await fixture.witness.arrivals();
    });
    test.each(ways)('$name', ({ name }) => {
      expect(madeBy(name, arrived)).not.toEqual([]);
    });
  });

  const insideATree = () => fixture.files.profile();
  const withAllFiles = (): SandboxRequest => ({
    permissions: { type: 'external', network: 'enabled' },
    windowsSandboxLevel: 'disabled',
  });

  describe.each([
    ['in a tree of its own', insideATree],
    ['with all files', withAllFiles],
  ] as const)('keeps a program %s behind its proxy against', (_where, sandbox) => {
    const all = [...DIRECT, ...LOCAL];
    let report: AttemptReport;
    let arrived: readonly string[];
    beforeAll(async () => {
      report = await fixture.attempt(all, sandbox(), enforced(PUBLIC));
      arrived = await fixture.witness.arrivals();
    });
    test.each(all)('$name', (attempt) => fixture.expectHeld(report, arrived, attempt));
    test('nothing arrived that has no name', () => expect(arrived).toEqual([]));
  });

  describe('keeps a program behind the proxies in its environment against', () => {
    let report: AttemptReport;
    let arrived: readonly string[];
    beforeAll(async () => {
      // The allowed server acts as a proxy; the server itself is not one.
      const named = {
        HTTP_PROXY: fixture.good.url,
        ALL_PROXY: fixture.server.url.replace('ws:', 'socks5h:'),
      };
      report = await fixture.attempt(DIRECT, insideATree(), { enforceManagedNetwork: true }, named);
      arrived = await fixture.witness.arrivals();
      const script = `curl -sS -m 10 -x "$HTTP_PROXY" http://bridged.example/; echo; curl -s -m 10 -x "$ALL_PROXY" http://bridged.example/; echo $?`;
      const network = { enforceManagedNetwork: true };
      const ran = await fixture.server.run(['/bin/sh', '-c', script], insideATree(), { env: named, network });
      expect(ran.stdout).toMatch(/^good\n[1-9]\d*\n$/);
      expect(fixture.asked).toContain('GET http://bridged.example/');
    });
    test.each(DIRECT)('$name', (attempt) => fixture.expectHeld(report, arrived, attempt));
    test('nothing arrived that has no name', () => expect(arrived).toEqual([]));
  });

  describe('a proxy that allows one host withstands', () => {
    let report: AttemptReport;
    let arrived: readonly string[];
    beforeAll(async () => {
      report = await fixture.attempt(TRICKS, insideATree(), enforced(LOOPBACK));
      arrived = await fixture.witness.arrivals();
    });
    test.each(TRICKS)('$name', (attempt) => fixture.expectHeld(report, arrived, attempt));
    test('nothing arrived that has no name', () => expect(arrived).toEqual([]));
    test('the good server was asked', () =>
      expect(fixture.asked).toEqual(expect.arrayContaining(['GET /first', 'POST /first'])));
  });

  describe('behind a proxy that allows everything', () => {
    const ways = LOCAL.filter(({ reaches }) => reaches);
    let report: AttemptReport;
    let arrived: readonly string[];
    beforeAll(async () => {
      const network = enforced(EVERYTHING);
      report = await fixture.attempt([...ways, ...OWN], insideATree(), network);
      arrived = await fixture.witness.arrivals();
    });
    test.each(ways)('the witness sees $name', ({ name }) => {
      expect(report[name]!.raised).toBeNull();
      expect(madeBy(name, arrived)).not.toEqual([]);
    });
    test.each(OWN)('still rejects $name', ({ name }) => {
      expect(report[name]!.raised).not.toBeNull();
    });
  });

  test('lets a program reach an allowed host over HTTP, TLS and SOCKS5', async () => {
    const certificates = new Certificates();
    const authority = certificates.authority('authority');
    const secure = await secureWebServer(
      pem(certificates.signedBy(authority, 'server')),
      (_request, response) => response.end('secure'),
    );
    const ca = fixture.files.file('outside/ca.pem', readFileSync(authority.cert, 'utf8'));
    const script = [
      `curl -sS -m 10 ${fixture.good.url}/plain; echo`,
      `curl -sS -m 10 --cacert ${ca} ${secure.url}/; echo`,
      `curl -s -m 10 ${secure.url}/; echo $?`,
      `curl -sS -m 10 -x "$ALL_PROXY" ${fixture.good.url}/socks; echo`,
      `curl -sS -m 10 --proxytunnel ${fixture.good.url}/tunnel; echo`,
    ].join('\n');
    const ran = await fixture.server.run(['/bin/sh', '-c', script], insideATree(), {
      network: enforced(LOOPBACK),
    });
    expect(ran).toEqual({ exitCode: 0, stdout: 'good\nsecure\n60\ngood\ngood\n', stderr: '' });
    expect(fixture.asked).toEqual(expect.arrayContaining(['GET /plain', 'GET /socks', 'GET /tunnel']));
    await secure.close();
    certificates.remove();
  });
});
