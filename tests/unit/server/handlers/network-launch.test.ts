import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import type { NetworkProxyLaunch } from '../../../../src/protocol/network.ts';
import { openNetwork, type ProgramNetwork } from '../../../../src/server/handlers/network-launch.ts';
import { PolicyDecisions } from '../../../../src/server/sessions/policy-decisions.ts';
import { PolicyQuestions } from '../../../../src/server/sessions/policy-questions.ts';
import { openDescriptors } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { closeScenes, openWebServer, settings } from '../../network/proxy/scene.ts';

const SENDER = fileURLToPath(new URL('../../../fixtures/send-listeners.mjs', import.meta.url));
const BWRAP = '/usr/bin/bwrap';

afterEach(closeScenes);

function scene() {
  const sink = {
    attached: true,
    saturated: true,
    sent: [] as string[],
    sendBulk: (frame: Uint8Array) => void sink.sent.push(String(frame)),
  };
  const services = {
    proxies: new ProxyResources(async () => []),
    policyQuestions: new PolicyQuestions(() => null),
    policyDecisions: new PolicyDecisions(sink),
  };
  const launch = (domains: Record<string, 'allow'>): NetworkProxyLaunch => ({
    proxy: settings({ domains }),
    auditMetadata: {},
  });
  const open = (request: {
    networkProxy?: NetworkProxyLaunch;
    sandboxed?: boolean;
    env?: Record<string, string>;
  }) =>
    openNetwork({ processId: 'p', env: {}, networkProxy: null, sandboxed: false, ...request }, services, {});
  return { sink, launch, open };
}

/** Runs curl in a network of its own, behind a launcher that sends its sockets. */
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

test('a start that says nothing about the network gets nothing', async () => {
  expect(await scene().open({})).toBeNull();
});

test('a program on the network of this machine gets a proxy, whose last decisions are sent when it ends', async () => {
  const { sink, launch, open } = scene();
  const network = await open({ networkProxy: launch({}) });
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
  'a sandboxed program finds its proxy on sockets that it sends, and everything is closed with it',
  async () => {
    const web = await openWebServer();
    const before = openDescriptors();
    const { launch, open } = scene();
    const network = await open({ networkProxy: launch({ '127.0.0.1': 'allow' }), sandboxed: true });
    const url = `http://127.0.0.1:${web.port}/`;
    expect(await fetchSandboxed(network!, url)).toBe('from upstream');
    network?.close();
    await waitFor('every descriptor to be closed', () => openDescriptors() === before);
  },
);

test('a sandboxed program without a proxy of its own finds those that its environment names', async () => {
  const { open } = scene();
  const env = { http_proxy: 'http://127.0.0.1:5' };
  const network = await open({ env, sandboxed: true });
  expect(network?.environmentOver(env)).toEqual(env);
  expect(network).toMatchObject({ sockets: { ports: [5] } });
  network?.close();
  await expect(open({ sandboxed: true })).rejects.toThrow('requires proxy environment variables');
});

test('a program whose sockets do not come is reported, unless it has ended', async () => {
  const { launch, open } = scene();
  const network = await open({ networkProxy: launch({}), sandboxed: true });
  const failed = new Promise<Error>((resolve) => network?.started(resolve));
  expect((await failed).message).toBe('the sender has ended');
  network?.close();
});

test('one that was never started leaves nothing open', async () => {
  const before = openDescriptors();
  const { launch, open } = scene();
  const network = await open({ networkProxy: launch({}), sandboxed: true });
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
