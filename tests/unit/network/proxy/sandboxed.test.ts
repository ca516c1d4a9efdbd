import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { loadDescriptorPassing } from '../../../../src/native/descriptor-passing.ts';
import { LoopbackBridge } from '../../../../src/network/loopback-bridge.ts';
import type { Decision } from '../../../../src/network/proxy/admission.ts';
import { CONNECT_TIMEOUT_MS } from '../../../../src/network/proxy/limits.ts';
import { NetworkProxy } from '../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import { DescriptorMailbox } from '../../../../src/process/spawn/descriptor-mailbox.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { closeFixtures, openWebServer, settings } from './proxy-fixture.ts';

const SENDER = fileURLToPath(new URL('../../../fixtures/send-listeners.mjs', import.meta.url));
const BWRAP = '/usr/bin/bwrap';
const NEVER = new AbortController().signal;
const passing = loadDescriptorPassing();

afterEach(closeFixtures);

/** Runs a shell script in its own network namespace and passes its sockets on `ports` to `serve`. */
async function runSandboxed(
  ports: readonly number[],
  script: string,
  env: Readonly<Record<string, string>>,
  serve: (descriptors: number[]) => Promise<void>,
): Promise<string> {
  const mailbox = new DescriptorMailbox(passing);
  const sandbox = [
    '--unshare-user',
    '--unshare-net',
    '--unshare-pid',
    '--ro-bind',
    '/',
    '/',
    '--dev',
    '/dev',
    '--proc',
    '/proc',
  ];
  const command = [process.execPath, SENDER, ports.join(','), '/bin/sh', '-c', script];
  const child = spawn(BWRAP, [...sandbox, '--die-with-parent', '--', ...command], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'inherit', mailbox.theirs],
  });
  const output = text(child.stdout!);
  const ended = once(child, 'close');
  await serve(await mailbox.receive(ports.length, NEVER));
  await ended;
  return output;
}

test.runIf(existsSync(BWRAP))('a program without a network reaches its proxy, and nothing else', async () => {
  const web = await openWebServer();
  const decisions: Decision[] = [];
  const { proxy, ports } = NetworkProxy.sandboxed({
    settings: settings({ domains: { '127.0.0.1': 'allow' }, enableSocks5Udp: true }),
    resources: new ProxyResources(async () => []),
    owner: {},
    peer: { decided: (decision) => decisions.push(decision), ask: null },
  });
  expect(proxy.environment).toMatchObject({
    HTTP_PROXY: `http://127.0.0.1:${ports[0]}`,
    ALL_PROXY: `socks5h://127.0.0.1:${ports[1]}`,
  });
  const url = `http://127.0.0.1:${web.port}/`;
  const script = [
    `echo "http: $(curl -sS -m 5 ${url})"`,
    `echo "tunnel: $(curl -sS -m 5 --proxytunnel ${url})"`,
    `echo "socks: $(http_proxy= curl -sS -m 5 ${url})"`,
    `echo "direct: $(curl -s -m 5 --noproxy '*' ${url}; echo $?)"`,
    `curl -sS -m 5 http://nope.test/`,
  ].join('\n');
  const output = await runSandboxed(ports, script, proxy.environment, (descriptors) =>
    proxy.serve(descriptors),
  );
  await proxy.close();
  expect(output.split('\n').slice(0, 4)).toEqual([
    'http: from upstream',
    'tunnel: from upstream',
    'socks: from upstream',
    'direct: 7',
  ]);
  expect(output).toContain('"reason":"not_allowed"');
  expect(decisions.map(({ protocol, decision }) => `${protocol} ${decision}`)).toEqual([
    'http allow',
    'https_connect allow',
    'socks5_tcp allow',
    'http deny',
  ]);
  expect(web.received).toHaveLength(3);
});

test.runIf(existsSync(BWRAP))(
  'bridges the same ports of this machine, except those of the server',
  async () => {
    const [web, own] = [await openWebServer(), await openWebServer()];
    const resources = new ProxyResources();
    resources.serverPorts.add(own.port);
    const bridge = new LoopbackBridge(resources, {});
    const ports = [web.port, own.port];
    const script = ports.map((port) => `curl -s -m 5 http://127.0.0.1:${port}/; echo " $?"`).join('\n');
    const output = await runSandboxed(ports, script, {}, (descriptors) => bridge.serve(ports, descriptors));
    await bridge.close();
    const [through, refused] = output.split('\n');
    expect(through).toBe('from upstream 0');
    expect(refused).not.toBe(' 0');
    expect(own.received).toEqual([]);
  },
);

test.runIf(existsSync(BWRAP))('cancels a pending connection when the program exits', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bridge-'));
  const deaf = spawn('python3', ['-c', DEAF], { stdio: ['pipe', 'pipe', 'inherit'] });
  const port = Number((await once(deaf.stdout!, 'data'))[0]);
  const bridge = new LoopbackBridge(new ProxyResources(), {});
  const others = beingMade(port);
  const cue = join(folder, 'cue');
  const program = runSandboxed([port], `python3 -c "${RESETTER}" ${port} ${cue}`, {}, (descriptors) =>
    bridge.serve([port], descriptors),
  );
  try {
    await waitFor('the bridge to knock', () => beingMade(port) > others);
    writeFileSync(cue, '');
    await program;
    await waitFor('the bridge to give up', () => beingMade(port) === others, CONNECT_TIMEOUT_MS / 2);
  } finally {
    writeFileSync(cue, '');
    await program;
    await bridge.close();
    deaf.stdin!.end();
    await once(deaf, 'close');
    rmSync(folder, { recursive: true });
  }
});

/** Listens on a port, prints it, and keeps its backlog full until its input ends. */
const DEAF = `
import socket, sys
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(0)
waiting = [socket.socket() for _ in range(4)]
for one in waiting:
    one.setblocking(False)
    one.connect_ex(listener.getsockname())
print(listener.getsockname()[1], flush=True)
sys.stdin.read()`;

/** Connects to a port and resets the connection when a file exists. */
const RESETTER = `
import os, socket, struct, sys, time
one = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
while not os.path.exists(sys.argv[2]): time.sleep(0.005)
one.close()`;

/** Pending connections to a port of this machine. */
function beingMade(port: number): number {
  const to = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} 02`;
  return readFileSync('/proc/net/tcp', 'latin1').split(to).length - 1;
}

test('closes a proxy that never gets its sockets', async () => {
  const { proxy, ports } = NetworkProxy.sandboxed({
    settings: settings({ enableSocks5: false }),
    resources: new ProxyResources(async () => []),
    owner: {},
    peer: { decided: () => {}, ask: null },
  });
  expect(ports).toHaveLength(1);
  expect(proxy.environment.ALL_PROXY).toBe(proxy.environment.HTTP_PROXY);
  await proxy.close();
});
