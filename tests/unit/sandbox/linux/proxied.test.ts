import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { loadDescriptorPassing } from '../../../../src/native/descriptor-passing.ts';
import { loadLibc } from '../../../../src/native/libc.ts';
import type { Decision } from '../../../../src/network/proxy/admission.ts';
import { NetworkProxy } from '../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import { DescriptorMailbox } from '../../../../src/process/spawn/descriptor-mailbox.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { spawnLaunch } from '../../../../src/process/start-program.ts';
import { childPids, openDescriptors, record, shell } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { closeFixtures, openWebServer, settings } from '../../network/proxy/proxy-fixture.ts';
import { newSandboxBuilder, removedAreClosed, UNRESTRICTED, workspacePolicy } from './sandboxed-programs.ts';

const passing = loadDescriptorPassing();
const spawner = new NativeSpawner(loadLibc());
const builder = newSandboxBuilder(spawner);
const workspace = mkdtempSync(join(tmpdir(), 'proxied-'));

// The first program opens descriptors that stay open.
beforeAll(async () => {
  const launch = await builder.wrapProgram(
    { ...shell('true'), cwd: workspace },
    workspacePolicy(workspace),
    'restricted',
  );
  const first = record(await spawnLaunch(launch, spawner));
  await launch.entered?.(first.child);
  await Promise.all([first.exited, first.ended]);
  first.child.release();
  await launch.release?.();
  await removedAreClosed();
});

afterEach(closeFixtures);

afterAll(async () => {
  await spawner.close();
  rmSync(workspace, { recursive: true });
  expect(childPids()).toEqual([]);
});

/** More than this process has descriptors. */
const secrets = Array.from({ length: 300 }, (_, index) => join(workspace, 'secrets', String(index)));
mkdirSync(join(workspace, 'secrets'));
for (const secret of secrets) writeFileSync(secret, '');
const manyDenied = Object.fromEntries(secrets.map((secret) => [secret, 'deny'] as const));

test.each([
  ['a restricted disk', workspacePolicy(workspace)],
  ['many denied files', workspacePolicy(workspace, manyDenied)],
  ['every file', UNRESTRICTED],
])('a program with %s reaches only its proxy', async (_name, policy) => {
  const web = await openWebServer();
  const before = openDescriptors();
  const decisions: Decision[] = [];
  const { proxy, ports } = NetworkProxy.sandboxed({
    settings: settings({ domains: { '127.0.0.1': 'allow' } }),
    resources: new ProxyResources(async () => []),
    owner: {},
    peer: { decided: (decision) => decisions.push(decision), ask: null },
  });
  const url = `http://127.0.0.1:${web.port}/`;
  const script = [
    `curl -sS -m 5 ${url}; echo`,
    `http_proxy= curl -sS -m 5 ${url}; echo`,
    `curl -s -m 5 --noproxy '*' ${url}; echo $?`,
    'ls /proc/self/fd | wc -l',
  ].join('\n');
  const spec = { ...shell(script), cwd: workspace, env: { PATH: '/usr/bin:/bin', ...proxy.environment } };
  const mailbox = new DescriptorMailbox(passing);
  const launch = await builder.wrapProgram(spec, policy, 'proxied', undefined, {
    ports,
    mailbox: mailbox.theirs,
  });
  const transcript = record(await spawnLaunch(launch, spawner));
  await launch.entered?.(transcript.child);
  await proxy.serve(await mailbox.receive(ports.length, new AbortController().signal));
  const [status] = await Promise.all([transcript.exited, transcript.ended]);
  transcript.child.release();
  await transcript.child.killTree();
  await launch.release?.();
  await proxy.close();
  expect(transcript.text('stdout')).toMatch(/^from upstream\nfrom upstream\n7\n4\n$/);
  expect(transcript.text('stderr')).toBe('');
  expect(status.code).toBe(0);
  expect(decisions.map(({ protocol }) => protocol)).toEqual(['http', 'socks5_tcp']);
  await waitFor('every descriptor to be closed', () => openDescriptors() === before);
});
