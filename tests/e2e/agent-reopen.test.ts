import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { AgentExec } from '../../src/agent/index.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import {
  connectWhenThere,
  ENVIRONMENT,
  startExecutorProgram,
  startProgram,
  TestRelay,
} from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

const AGENT_USER = fileURLToPath(new URL('../fixtures/agent-user.mjs', import.meta.url));

interface Machine {
  /** Options with which a program connects. */
  readonly options: unknown;
  connect(): Promise<ExecServerClient>;
}

async function behindWebSocket(): Promise<Machine> {
  const server = await startServerProcess();
  onTestFinished(() => server.close());
  const options = { url: server.url };
  return { options, connect: () => ExecServerClient.connect(options) };
}

async function behindRelay(): Promise<Machine> {
  const relay = await TestRelay.open();
  const executor = startExecutorProgram(relay);
  onTestFinished(() => executor.stop().finally(() => relay.close()));
  await (await connectWhenThere(relay)).close();
  const auth = relay.token('harness');
  return {
    options: { registryUrl: relay.harnessUrl, environmentId: ENVIRONMENT, auth },
    connect: () => relay.connect(),
  };
}

test.each([
  ['a websocket', behindWebSocket],
  ['a relay', behindRelay],
])('a session continues in a new program after the first one was killed, over %s', async (_, open) => {
  const machine = await open();
  const cmd = `printf 'name? '; read name; echo "hello $name"`;
  const args = [AGENT_USER, cmd, JSON.stringify(machine.options)];
  const killed = startProgram(process.execPath, args, { env: {} });
  onTestFinished(() => void killed.process.kill('SIGKILL'));
  const line = await waitFor('the session', () => /^\{.*\}$/m.exec(killed.stdout())?.[0]);
  const { ref, output } = JSON.parse(line!) as { ref: string; output: string };
  expect(output).toContain('name?');
  killed.process.kill('SIGKILL');
  await killed.exited;

  const client = await machine.connect();
  onTestFinished(() => client.close());
  const { backend, processes } = client;
  const shell = { name: 'sh', path: '/bin/sh' };
  const exec = new AgentExec({ targets: [{ id: 'box', backend, processes, shell, cwd: 'file:///' }] });
  const sessionId = await exec.reopen(ref, { callId: 'call-2' });
  expect(exec.list()).toMatchObject([{ itemId: 'call-2', ref, cwd: 'file:///' }]);
  const write = (chars: string) => exec.writeStdin({ session_id: sessionId, chars, yield_time_ms: 10_000 });
  let answer = await write('bob\n');
  let { output: printed } = answer.structured;
  // On a busy machine the end of the output follows the exit in a later answer.
  if (answer.sessionId !== null) {
    answer = await write('');
    printed += answer.structured.output;
  }
  expect(answer).toMatchObject({ exitCode: 0, sessionId: null, ref: null });
  expect(printed).toMatch(/^name\? bob\r\nhello bob\r\n$/);
  await exec.close();
});

test.each([
  ['another client', false],
  ['the same client', true],
])('closing an agent leaves a program that an agent of %s has reopened', async (_name, sameClient) => {
  const machine = await behindWebSocket();
  const first = await machine.connect();
  const second = sameClient ? first : await machine.connect();
  onTestFinished(() => Promise.all([first.close(), second.close()]).then(() => {}));
  const agentOf = ({ backend, processes }: ExecServerClient) =>
    new AgentExec({
      targets: [{ id: 'box', backend, processes, shell: { name: 'sh', path: '/bin/sh' }, cwd: 'file:///' }],
      detached: true,
    });
  const old = agentOf(first);
  const args = { cmd: 'read name; echo "hello $name"', tty: true, login: false, yield_time_ms: 250 };
  const { ref } = await old.execCommand(args, { callId: 'call-1' });
  const agent = agentOf(second);
  const session_id = await agent.reopen(ref!, { callId: 'call-2' });
  // The answer to a later call follows the report that the role has changed.
  await first.info();
  await first.call('environment/status', null);
  await old.close();
  const answer = await agent.writeStdin({ session_id, chars: 'bob\n', yield_time_ms: 10_000 });
  expect(answer).toMatchObject({ exitCode: 0 });
  expect(answer.structured.output).toContain('hello bob');
  await agent.close();
});
