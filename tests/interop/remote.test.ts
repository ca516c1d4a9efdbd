import { describe, expect, onTestFinished, test } from 'vitest';
import { createHome, ensureReference } from '../../scripts/reference.mjs';
import type { ExecServerClient } from '../../src/client/client.ts';
import { run } from '../../src/client/process/run.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import {
  connectWhenThere,
  ENVIRONMENT,
  type RunningProgram,
  startBin,
  startExecutorProgram,
  startProgram,
  TestRelay,
} from '../support/relay.ts';
import { removeFolder } from '../support/remove-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { CodexRun } from './codex-client.ts';

const binary: string | Error = await ensureReference().catch((error: Error) => error);
const skipped = binary instanceof Error;

type Kind = 'exec-server' | 'reference';

async function openRelay(): Promise<TestRelay> {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  return relay;
}

function startReference(relay: TestRelay, args: readonly string[]): RunningProgram {
  const home = createHome();
  const target = ['--remote', relay.executorUrl, '--environment-id', ENVIRONMENT];
  return startProgram(binary as string, ['exec-server', ...args, ...target], {
    env: { HOME: home, CODEX_HOME: home, CODEX_API_KEY: relay.token('executor') },
    onExit: () => removeFolder(home),
  });
}

function startExecutor(relay: TestRelay, kind: Kind): RunningProgram {
  const executor = kind === 'reference' ? startReference(relay, []) : startExecutorProgram(relay);
  onTestFinished(() => executor.stop());
  return executor;
}

async function connect(relay: TestRelay): Promise<ExecServerClient> {
  const client = await connectWhenThere(relay);
  onTestFinished(() => client.close());
  return client;
}

async function echo(client: ExecServerClient, text: string): Promise<string> {
  const { stdout } = await run(client.backend, ['/bin/echo', '-n', text]);
  return Buffer.from(stdout).toString();
}

describe.skipIf(skipped)('an executor of the reference', () => {
  test('runs programs for this client', async () => {
    const relay = await openRelay();
    startExecutor(relay, 'reference');
    const client = await connect(relay);
    expect(await echo(client, 'hello')).toBe('hello');
    const large = 'x'.repeat(100_000);
    expect(await echo(client, large)).toBe(large);
  });

  test('handles many concurrent requests', async () => {
    const relay = await openRelay();
    startExecutor(relay, 'reference');
    const client = await connect(relay);
    await client.call('process/start', shell('p', 'sleep 5'));
    // One request runs at a time: all others wait behind this one.
    const slow = client.call('process/read', { processId: 'p', afterSeq: 0, maxBytes: null, waitMs: 1_000 });
    const infos = Array.from({ length: 500 }, () => client.call('environment/info', null));
    await slow;
    expect(new Set((await Promise.all(infos)).map(({ cwd }) => cwd)).size).toBe(1);
    expect(client.state).toBe('connected');
  });

  test.each(['harness', 'executor'] as const)(
    'keeps its session when the %s loses its connection',
    async (side) => {
      const relay = await openRelay();
      startExecutor(relay, 'reference');
      const client = await connect(relay);
      const { sessionId } = client;
      const process = await client.backend.start({ ...shell('p', 'cat'), pipeStdin: true });
      const losses: string[] = [];
      client.onStateChange((state) => losses.push(state));
      relay[`${side}Link`].drop();
      await waitFor('the client to notice', () => losses.includes('recovering'));
      await process.write('after\n');
      const { chunks } = await process.read({ afterSeq: 0, waitMs: 5_000 });
      expect(Buffer.concat(chunks.map(({ bytes }) => bytes)).toString()).toBe('after\n');
      expect(client.sessionId).toBe(sessionId);
    },
  );
});

describe.skipIf(skipped).each(['exec-server', 'reference'] as const)(
  'codex with an executor of %s',
  (kind) => {
    test('completes a turn', async () => {
      const relay = await openRelay();
      startExecutor(relay, kind);
      await (await connectWhenThere(relay)).close();
      const codex = await CodexRun.start({
        binary: binary as string,
        url: '',
        relay: {
          registryUrl: relay.harnessUrl,
          environmentId: ENVIRONMENT,
          authToken: relay.token('harness'),
        },
      });
      onTestFinished(() => codex.close());
      const output = await codex.exec('echo over the relay; echo $PPID');
      expect(output.text).toContain('over the relay');
      const { commands } = await codex.finish();
      expect(commands).toMatchObject([{ exit_code: 0 }]);
    });
  },
);

test.skipIf(skipped)('codex continues its command after it has lost its connection', async () => {
  const relay = await openRelay();
  startExecutor(relay, 'exec-server');
  await (await connectWhenThere(relay)).close();
  const codex = await CodexRun.start({
    binary: binary as string,
    url: '',
    relay: { registryUrl: relay.harnessUrl, environmentId: ENVIRONMENT, authToken: relay.token('harness') },
  });
  onTestFinished(() => codex.close());
  // A call that returns shows that codex has the answer to its start.
  const script = 'echo one; until [ -e go ]; do sleep 0.02; done; echo two';
  const started = await codex.exec(script, { yield_time_ms: 250 });
  relay.harnessLink.drop();
  relay.executorLink.drop();
  codex.touch('go');
  const ended = await codex.writeStdin(started.sessionId, '', 20_000);
  expect(started.output + ended.output).toBe('one\ntwo\n');
  await codex.finish();
});

describe.skipIf(skipped)('a forwarder', () => {
  test('of the reference forwards to this server', async () => {
    const relay = await openRelay();
    const server = await startServerProcess();
    onTestFinished(() => server.close());
    const forwarder = startReference(relay, ['forward', '--connect', server.url]);
    onTestFinished(() => forwarder.stop());
    expect(await echo(await connect(relay), 'forwarded')).toBe('forwarded');
  });

  test('of this project forwards to a server of the reference', async () => {
    const relay = await openRelay();
    const { startReference: startServer } = await import('../../scripts/reference.mjs');
    const server = await startServer();
    onTestFinished(() => server.stop());
    const target = ['--remote', relay.executorUrl, '--environment-id', ENVIRONMENT];
    const forwarder = startBin(['forward', '--connect', server.url!, ...target], {
      CODEX_API_KEY: relay.token('executor'),
    });
    onTestFinished(() => forwarder.stop());
    expect(await echo(await connect(relay), 'forwarded')).toBe('forwarded');
  });
});
