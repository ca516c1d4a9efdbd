import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import type { NetworkProxyLaunch } from '../../../../src/protocol/network.ts';
import { METHODS } from '../../../../src/protocol/registry.ts';
import { ProgramNetwork, proxyOptions } from '../../../../src/server/handlers/program-network.ts';
import { PolicyDecisions } from '../../../../src/server/sessions/policy-decisions.ts';
import { PolicyRequests } from '../../../../src/server/sessions/policy-requests.ts';
import { openDescriptors } from '../../../support/children.ts';
import { CLOSED_PROXY } from '../../../support/proxy-settings.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { closeFixtures, openWebServer, settings } from '../../network/proxy/proxy-fixture.ts';

const SENDER = fileURLToPath(new URL('../../../fixtures/send-listeners.mjs', import.meta.url));
const BWRAP = '/usr/bin/bwrap';

afterEach(closeFixtures);

function fixture() {
  const sink = {
    attached: true,
    saturated: true,
    sent: [] as string[],
    sendBulk: (frame: Uint8Array) => void sink.sent.push(String(frame)),
  };
  const services = {
    proxies: new ProxyResources(async () => []),
    owner: {},
    policyRequests: new PolicyRequests(() => null),
    policyDecisions: new PolicyDecisions(sink),
  };
  const launchTo = (domains: Record<string, 'allow'>): NetworkProxyLaunch => ({
    proxy: settings({ domains }),
    auditMetadata: {},
  });
  const open = (request: {
    networkProxy?: NetworkProxyLaunch;
    sandboxed?: boolean;
    env?: Record<string, string>;
  }) =>
    ProgramNetwork.open(
      { processId: 'p', env: {}, networkProxy: null, sandboxed: false, ...request },
      services,
      {},
    );
  return { sink, launchTo, open };
}

/** Runs curl in its own network namespace, below a launcher that sends its sockets. */
async function fetchSandboxed(network: ProgramNetwork, url: string): Promise<string> {
  const { ports, mailbox } = network.sockets!;
  const sandbox = ['--unshare-user', '--unshare-net', '--dev-bind', '/', '/', '--die-with-parent', '--'];
  const command = [process.execPath, SENDER, ports.join(','), 'curl', '-sS', '-m', '10', url];
  const child = spawn(BWRAP, [...sandbox, ...command], {
    env: { ...network.environmentOver({ PATH: process.env.PATH ?? '' }) },
    stdio: ['ignore', 'pipe', 'inherit', mailbox],
  });
  network.started((error) => {
    throw error;
  });
  const [output] = await Promise.all([text(child.stdout!), once(child, 'close')]);
  return output;
}

test('opens nothing for a start without a proxy', async () => {
  expect(await fixture().open({})).toBeNull();
});

test('gives an unsandboxed program a proxy and sends its last decisions when it ends', async () => {
  const { sink, launchTo, open } = fixture();
  const network = await open({ networkProxy: launchTo({}) });
  expect(network?.sockets).toBeNull();
  const env = network?.environmentOver({ PATH: process.env.PATH ?? '' }) ?? {};
  const { port } = new URL(env.HTTP_PROXY ?? '');
  const { stdout } = spawn('curl', ['-s', 'http://a.test/'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  expect(await text(stdout!)).toContain('"reason":"not_allowed"');
  expect(sink.sent).toEqual([]);
  network?.close();
  expect(sink.sent).toHaveLength(1);
  await waitFor('the port to be free', () => isFree(Number(port)));
});

test.runIf(existsSync(BWRAP))(
  'serves a sandboxed program on the sockets that it sends, and closes them all when it ends',
  async () => {
    const web = await openWebServer();
    const before = openDescriptors();
    const { launchTo, open } = fixture();
    const network = await open({ networkProxy: launchTo({ '127.0.0.1': 'allow' }), sandboxed: true });
    const url = `http://127.0.0.1:${web.port}/`;
    expect(await fetchSandboxed(network!, url)).toBe('from upstream');
    network?.close();
    await waitFor('every descriptor to be closed', () => openDescriptors() === before);
  },
);

test('bridges a sandboxed program to the loopback proxies in its environment', async () => {
  const { open } = fixture();
  const env = { http_proxy: 'http://127.0.0.1:5' };
  const network = await open({ env, sandboxed: true });
  expect(network?.environmentOver(env)).toEqual(env);
  expect(network).toMatchObject({ sockets: { ports: [5] } });
  network?.close();
  await expect(open({ sandboxed: true })).rejects.toThrow('requires proxy environment variables');
});

test('reports a program whose sockets do not arrive', async () => {
  const { launchTo, open } = fixture();
  const network = await open({ networkProxy: launchTo({}), sandboxed: true });
  const failed = new Promise<Error>((resolve) => network?.started(resolve));
  expect((await failed).message).toBe('the sender has ended');
  network?.close();
});

test('leaves no descriptor open for a program that was never started', async () => {
  const before = openDescriptors();
  const { launchTo, open } = fixture();
  const network = await open({ networkProxy: launchTo({}), sandboxed: true });
  network?.close();
  await waitFor('every descriptor to be closed', () => openDescriptors() === before);
});

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

const START = { processId: 'p', argv: ['/bin/true'], cwd: 'file:///', env: {}, tty: false };

/** A launch as the schema returns it. */
function launch(more: object = {}, proxy: object = {}): NetworkProxyLaunch {
  const parsed = METHODS['process/start'].params.parse({
    ...START,
    networkProxy: { proxy: { ...CLOSED_PROXY, ...proxy }, ...more },
  });
  return (parsed as { networkProxy: NetworkProxyLaunch }).networkProxy;
}

function proxyFixture() {
  const sent: unknown[] = [];
  const requests: unknown[] = [];
  const sink = {
    attached: true,
    saturated: false,
    sendBulk: (frame: Uint8Array) => sent.push(JSON.parse(String(frame))),
  };
  const peer = {
    call: async (_method: string, params: unknown) => {
      requests.push(params);
      return { decision: { type: 'allow' } };
    },
  };
  const services = {
    proxies: new ProxyResources(async () => []),
    owner: {},
    policyRequests: new PolicyRequests(() => peer),
    policyDecisions: new PolicyDecisions(sink),
  };
  return { services, sent, requests };
}

describe('proxyOptions', () => {
  test('sends decisions and policy requests with the process id', async () => {
    const { services, sent, requests } = proxyFixture();
    const { peer, settings } = proxyOptions('p', launch({ policyDecisionTimeoutMs: 1000 }), services, {});
    const request = { protocol: 'http', host: 'a.test', port: 80 } as const;
    expect(await peer.ask?.(request, new AbortController().signal)).toEqual({ type: 'allow' });
    expect(requests).toEqual([{ processId: 'p', request }]);
    peer.decided({ host: 'a.test' } as never);
    expect(sent).toEqual([{ method: 'network/policyDecision', params: { processId: 'p', host: 'a.test' } }]);
    expect(settings).toMatchObject({ reviewDomains: [], credentialMasking: false });
  });

  test('sends no policy requests without a timeout', () => {
    expect(proxyOptions('', launch(), proxyFixture().services, {}).peer.ask).toBeNull();
  });

  test.each([
    ['a timeout of 0', 'p', { policyDecisionTimeoutMs: 0 }, {}, {}],
    ['an empty process id', '', { policyDecisionTimeoutMs: 1 }, {}, {}],
    ['a long process id', 'é'.repeat(129), { policyDecisionTimeoutMs: 1 }, {}, {}],
    ['an upstream proxy', 'p', {}, { allowUpstreamProxy: true }, { https_proxy: 'http://proxy.test' }],
  ])('refuses %s', (_name, processId, more, proxy, env) => {
    expect(() => proxyOptions(processId, launch(more, proxy), proxyFixture().services, env)).toThrow(
      expect.objectContaining({ code: -32602 }),
    );
  });

  test('ignores allowUpstreamProxy when no upstream proxy is set', () => {
    const options = proxyOptions('p', launch({}, { allowUpstreamProxy: true }), proxyFixture().services, {
      HTTPS_PROXY: '',
    });
    expect(options.peer.ask).toBeNull();
  });

  test.each([
    [{ proxy: undefined }],
    [{ auditMetadata: null }],
    [{ environmentId: 5 }],
    [{ policyDecisionTimeoutMs: -1 }],
  ])('the schema refuses the launch %o', (more) => {
    expect(() => launch(more)).toThrow();
  });

  test.each([
    [{ mode: 'x' }],
    [{ enabled: undefined }],
    [{ domains: { a: 'x' } }],
    [{ reviewDomains: null }],
    [{ credentialMasking: null }],
    [{ credentialProviders: null }],
    [{ credentialProviders: { x: { unknown: 1 } } }],
    [{ credentialProviders: { x: { env: 'A' } } }],
  ])('the schema refuses the settings %o', (proxy) => {
    expect(() => launch({}, proxy)).toThrow();
  });

  test('the schema ignores unknown members', () => {
    expect(
      launch({ more: 1 }, { more: 1, domains: null, credentialProviders: { x: { env: ['A'] } } }),
    ).toBeDefined();
  });
});

test('adds proxy variables and keeps credentials where nothing is masked', async () => {
  const { launchTo, open } = fixture();
  const network = await open({ networkProxy: launchTo({}) });
  const env = network?.environmentOver({ GH_TOKEN: 'ghp_abcdefghijklmnopqrstuvwxyz0123456789' });
  expect(env).toMatchObject({
    GH_TOKEN: 'ghp_abcdefghijklmnopqrstuvwxyz0123456789',
    HTTP_PROXY: expect.stringMatching(/^http:/),
  });
  network?.close();
});
