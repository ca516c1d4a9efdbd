import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type ExecProcess,
  ExecServerClient,
  type NetworkPolicyDecisionEvent,
  type PolicyHandler,
  type StartParams,
} from '../../src/client/index.ts';
import { startServer, TcpProxy, TestClient, type TestServer } from '../../src/testing/index.ts';
import { CLOSED_PROXY } from '../support/proxy-settings.ts';
import { waitFor } from '../support/wait-for.ts';
import { type WebServer, webServer } from '../support/web-servers.ts';

type Launch = NonNullable<StartParams['networkProxy']>;

let folder: string;
let server: TestServer;
let web: WebServer;
let asked: string[];
const open: { close(): Promise<unknown> }[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'network-policy-'));
  server = await startServer();
  asked = [];
  web = await webServer(({ url = '' }, response) => {
    asked.push(url);
    response.end('reached');
  });
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  await server.close();
  await web.close();
  rmSync(folder, { recursive: true });
});

/** A proxy that allows nothing by itself, but lets local hosts be allowed: a test can reach no others. */
function launch(
  policyDecisionTimeoutMs: number | null = 60_000,
  domains: Launch['proxy']['domains'] = {},
): Launch {
  return {
    proxy: {
      ...CLOSED_PROXY,
      allowLocalBinding: true,
      domains,
    },
    policyDecisionTimeoutMs,
  };
}

/** A shell script that can only use its proxy. Its `fetch` calls the web server. */
function enforced(processId: string, script: string, networkProxy = launch()): StartParams {
  return {
    processId,
    argv: ['/bin/sh', '-c', `fetch() { curl -s -m 60 --noproxy '' "$@"; echo; }\n${script}`],
    cwd: 'file:///',
    env: { PATH: '/usr/bin:/bin' },
    tty: false,
    networkProxy,
    enforceManagedNetwork: true,
    sandbox: {
      permissions: {
        type: 'managed',
        file_system: {
          type: 'restricted',
          entries: [
            { path: { type: 'special', value: { kind: 'root' } }, access: 'read' },
            { path: { type: 'path', path: `file://${folder}` }, access: 'write' },
          ],
        },
        network: 'restricted',
      },
      windowsSandboxLevel: 'disabled',
    },
  };
}

/** A policy request and how it is answered. */
async function policyRequest(client: TestClient, number = 1) {
  await waitFor(`policy request ${number}`, () => policyRequests(client).length >= number);
  const { id, params } = policyRequests(client)[number - 1] as { id: number; params: unknown };
  const answer = (decision: unknown) => client.sendText(JSON.stringify({ id, result: { decision } }));
  return { id, params, answer };
}

function policyRequests({ received }: TestClient) {
  return received.filter(({ method }) => method === 'network/policyRequest');
}

function decisions({ received }: TestClient): NetworkPolicyDecisionEvent[] {
  return received
    .filter(({ method }) => method === 'network/policyDecision')
    .map(({ params }) => params as NetworkPolicyDecisionEvent);
}

describe('a host that no pattern allows', () => {
  test.each([
    ['http', (url: string) => `fetch ${url}`],
    ['https_connect', (url: string) => `fetch --proxytunnel ${url}`],
    ['socks5_tcp', (url: string) => `fetch -x "$ALL_PROXY" ${url}`],
  ])('is reached over %s when the client allows it', async (protocol, command) => {
    const client = await server.connect();
    await client.call('process/start', enforced('p', command(`${web.url}/allowed`)));
    const { id, params, answer } = await policyRequest(client);
    expect({ id, params }).toEqual({
      id: 1,
      params: { processId: 'p', request: { protocol, host: '127.0.0.1', port: web.port } },
    });
    expect(asked).toEqual([]);
    answer({ type: 'allow' });
    expect((await client.closedProcess('p')).text('stdout')).toBe('reached\n');
    expect(decisions(client)).toEqual([
      expect.objectContaining({
        decision: 'allow',
        source: 'decider',
        reason: 'not_allowed',
        policyOverride: true,
      }),
    ]);
  });

  test.each([
    [{ type: 'deny', reason: 'not today' }, 'deny', 'not today'],
    [{ type: 'ask', reason: 'somebody else' }, 'ask', 'somebody else'],
    [{ type: 'deny', reason: 'x'.repeat(1025) }, 'deny', 'not_allowed'],
    [{ type: 'perhaps' }, 'deny', 'not_allowed'],
  ])('is not reached when the client answers %j', async (answer, decision, reason) => {
    const client = await server.connect();
    await client.call('process/start', enforced('p', `fetch ${web.url}/`));
    (await policyRequest(client)).answer(answer);
    const answered = JSON.parse((await client.closedProcess('p')).text('stdout')) as unknown;
    expect(answered).toMatchObject({ status: 'blocked', decision, reason, source: 'decider' });
    expect(decisions(client)).toEqual([expect.objectContaining({ decision, reason, policyOverride: false })]);
    expect(asked).toEqual([]);
  });

  test('is not reached when the client does not answer in time', async () => {
    const client = await server.connect();
    await client.call('process/start', enforced('p', `fetch ${web.url}/`, launch(1)));
    const { answer } = await policyRequest(client);
    expect((await client.closedProcess('p')).text('stdout')).toContain('"reason":"not_allowed"');
    // A late answer is ignored.
    answer({ type: 'allow' });
    await client.call('environment/status', {});
    expect(asked).toEqual([]);
  });

  test('is not reached when the client disconnects; the next client is asked again', async () => {
    const client = await server.connect({ handshake: false });
    const resumeSessionId = await client.handshake();
    const gate = join(folder, 'gate');
    const script = `fetch ${web.url}/one; echo denied > ${folder}/denied; until [ -e ${gate} ]; do sleep 0.02; done; fetch ${web.url}/two`;
    await client.call('process/start', enforced('p', script));
    await policyRequest(client);
    await client.drop();
    await waitFor('the denial', () => existsSync(join(folder, 'denied')));
    const next = await TestClient.connect(server.url);
    await next.handshake({ clientName: 'test', resumeSessionId });
    await next.call('fs/writeFile', { path: `file://${gate}`, dataBase64: '' });
    const { id, answer } = await policyRequest(next);
    expect(id).toBe(1);
    answer({ type: 'allow' });
    await waitFor('the answer', () => asked.length > 0);
    await next.waitFor(({ method }) => method === 'process/closed');
    expect(asked).toEqual(['/two']);
    expect(decisions(next).map(({ decision, reason }) => [decision, reason])).toEqual([
      ['deny', 'not_allowed'],
      ['allow', 'not_allowed'],
    ]);
  });

  test('is not reached for a program that ended before the answer', async () => {
    const client = await server.connect();
    await client.call('process/start', enforced('p', `fetch ${web.url}/ & sleep 1000`));
    const { answer } = await policyRequest(client);
    await client.call('process/terminate', { processId: 'p' });
    await client.closedProcess('p');
    answer({ type: 'allow' });
    await client.call('environment/status', {});
    expect(asked).toEqual([]);
  });
});

describe('the client library', () => {
  /** A client whose connections can be cut. */
  async function connect(onNetworkPolicyRequest: PolicyHandler): Promise<[ExecServerClient, TcpProxy]> {
    const proxy = await TcpProxy.open(server.url);
    const client = await ExecServerClient.connect({ url: proxy.url, onNetworkPolicyRequest });
    open.push(client, proxy);
    return [client, proxy];
  }

  async function outputOf(process: ExecProcess): Promise<string> {
    let output = '';
    for await (const event of process.events()) {
      if (event.type === 'output') output += Buffer.from(event.bytes).toString();
    }
    return output;
  }

  test('decides and receives the decisions', async () => {
    const [client] = await connect(({ host, port }) =>
      host === '127.0.0.1' && port === web.port ? { type: 'allow' } : { type: 'deny', reason: 'elsewhere' },
    );
    const reported: string[] = [];
    client.onNotification('network/policyDecision', ({ processId, host, decision, source, reason }) =>
      reported.push([processId, host, decision, source, reason].join(' ')),
    );
    const process = await client.backend.start(enforced('p', `fetch ${web.url}/; fetch http://a.example/`));
    const output = await outputOf(process);
    expect(output).toMatch(/^reached\n\{"status":"blocked".*"reason":"elsewhere"/);
    expect(reported).toEqual(['p 127.0.0.1 allow decider not_allowed', 'p a.example deny decider elsewhere']);
  });

  test('continues to decide on its next connection', async () => {
    const signals: AbortSignal[] = [];
    const [client, proxy] = await connect(({ host }, signal) => {
      signals.push(signal);
      return host === '127.0.0.1' ? { type: 'allow' } : new Promise(() => {});
    });
    // A request without an attached client is denied immediately, so the program waits for one.
    const script = `fetch http://a.example/; until [ -e ${folder}/go ]; do sleep 0.02; done; fetch ${web.url}/`;
    const process = await client.backend.start(enforced('p', script));
    await waitFor('the policy request', () => signals.length === 1);
    proxy.drop();
    await waitFor('the next connection', () => client.call('environment/status', {}).catch(() => null));
    writeFileSync(`${folder}/go`, '');
    await waitFor('the second policy request', () => signals.length === 2);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
    const output = await outputOf(process);
    expect(output).toMatch(/"reason":"not_allowed".*\nreached\n$/s);
  });
});

describe('decisions', () => {
  /** Requests hosts that are denied, one after another, and reports when it is done. */
  const storm = (count: number) => `python3 - <<'END'
import os, socket
s = socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].rsplit(':', 1)[1])), 30)
f = s.makefile('rb')
for number in range(${count}):
    s.sendall(b'GET http://h%d.example/ HTTP/1.1\\r\\nHost: h%d.example\\r\\n\\r\\n' % (number, number))
    length = 0
    while (line := f.readline()) != b'\\r\\n':
        if line.lower().startswith(b'content-length:'): length = int(line[15:])
    f.read(length)
open('${folder}/done', 'w').close()
END`;

  const numbers = (reported: readonly NetworkPolicyDecisionEvent[]) =>
    reported.map(({ host }) => Number(/\d+/.exec(host)));

  test('are reported in order to a client that reads', async () => {
    const client = await server.connect();
    client.timeoutMs = 55_000;
    // More than are kept for an absent client.
    await client.call('process/start', enforced('p', storm(1100), launch(null)));
    await client.closedProcess('p');
    const reported = decisions(client);
    expect(numbers(reported)).toEqual(Array.from({ length: 1100 }, (_, number) => number));
    expect(reported.some(({ droppedBefore }) => droppedBefore !== undefined)).toBe(false);
  });

  test('are counted when more of them occur than are kept for an absent client', async () => {
    const client = await server.connect({ handshake: false });
    const resumeSessionId = await client.handshake();
    const gate = join(folder, 'gate');
    const script = `until [ -e ${gate} ]; do sleep 0.02; done\n${storm(1500)}`;
    await client.call('process/start', enforced('p', script, launch(null)));
    await client.drop();
    const other = await server.connect();
    await other.call('fs/writeFile', { path: `file://${gate}`, dataBase64: '' });
    await waitFor('the requests', () => existsSync(join(folder, 'done')));
    const next = await TestClient.connect(server.url);
    await next.handshake({ clientName: 'test', resumeSessionId });
    await waitFor('the decisions', () => decisions(next).length >= 1024);
    const reported = decisions(next);
    expect(numbers(reported)).toEqual(Array.from({ length: 1024 }, (_, number) => number + 476));
    expect(reported.map(({ droppedBefore }) => droppedBefore ?? 0)).toEqual([476, ...Array(1023).fill(0)]);
  });
});
