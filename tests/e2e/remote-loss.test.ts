import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { ProcessEvent } from '../../src/client/backend.ts';
import { discoverEnvironments } from '../../src/environment/config/sources.ts';
import { createConnector } from '../../src/environment/remote/create-connector.ts';
import { shell } from '../support/programs.ts';
import {
  connectWhenThere,
  ENVIRONMENT,
  overRelay,
  startExecutorProgram,
  TestRelay,
} from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

async function open() {
  const fixture = await overRelay();
  onTestFinished(fixture.close);
  const states: string[] = [];
  fixture.client.onStateChange((state) => states.push(state));
  return { ...fixture, states };
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'remote-loss-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

test.each(['harnessLink', 'executorLink'] as const)(
  'loses nothing while the %s is down, and the client does not notice',
  async (link) => {
    const { client, relay, states } = await open();
    const done = join(folder(), 'done');
    const script = `read line; echo "$line"; seq 1 20000; touch ${done}; cat`;
    const process = await client.backend.start({ ...shell('p', script), pipeStdin: true });
    const events: ProcessEvent[] = [];
    const ended = (async () => {
      for await (const event of process.events()) events.push(event);
    })();
    await process.write('go\n');
    await waitFor('output', () => events.length > 0);
    relay[link].drop();
    await waitFor('the rest of the output', () => existsSync(done));
    await process.write('after\n');
    expect(await process.closeStdin()).toBe(true);
    await ended;
    const output = events.flatMap((event) => (event.type === 'output' ? [event.bytes] : []));
    const numbers = Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join('');
    expect(Buffer.concat(output).toString()).toBe(`go\n${numbers}after\n`);
    expect(states).toEqual([]);
  },
);

test('a restarted relay loses nothing', async () => {
  const { client, relay, states } = await open();
  const process = await client.backend.start({ ...shell('p', 'cat'), pipeStdin: true });
  await process.write('before\n');
  await relay.restart();
  await process.write('after\n');
  expect(await process.closeStdin()).toBe(true);
  const output: Uint8Array[] = [];
  for await (const event of process.events()) if (event.type === 'output') output.push(event.bytes);
  expect(Buffer.concat(output).toString()).toBe('before\nafter\n');
  expect(states).toEqual([]);
});

test('a replaced executor exits and reports why', async () => {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  const first = startExecutorProgram(relay);
  onTestFinished(() => first.stop());
  const client = await connectWhenThere(relay);
  onTestFinished(() => client.close());
  const second = startExecutorProgram(relay);
  onTestFinished(() => second.stop());
  expect(await first.exited).toBe(1);
  expect(first.stderr()).toMatch(/answered register with HTTP 409/);
});

test('reports a lost session to the client when the executor was restarted', async () => {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  const first = startExecutorProgram(relay);
  onTestFinished(() => first.stop());
  const client = await connectWhenThere(relay, { recoveryWindowMs: 10_000 });
  onTestFinished(() => client.close());
  first.process.kill('SIGKILL');
  const second = startExecutorProgram(relay);
  onTestFinished(() => second.stop());
  await waitFor('the end of the session', () => client.state === 'failed');
  expect(client.failure).toMatchObject({ kind: 'disconnected', code: -32600 });
});

test("connects with the reference's environment variables", async () => {
  const { relay } = await open();
  const { environments } = await discoverEnvironments({
    codexHome: folder(),
    env: {
      CODEX_EXEC_SERVER_NOISE_REGISTRY_URL: relay.harnessUrl,
      CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID: ENVIRONMENT,
      CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN: relay.token('harness'),
    },
  });
  const connector = createConnector(environments[0]!.transport);
  const { client } = await connector.connect(new AbortController().signal);
  onTestFinished(() => client.close());
  expect(await client.call('environment/status', null)).toEqual({ status: 'ready' });
});
