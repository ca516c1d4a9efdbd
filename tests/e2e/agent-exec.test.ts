import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { AgentExec, type ExecEvent, environmentTarget } from '../../src/agent/index.ts';
import type { ExecBackend } from '../../src/client/backend.ts';
import { LocalEnvironment } from '../../src/environment/index.ts';
import { type ConnectedClient, overProxy, overStdio, overWebSocket } from '../support/connected-clients.ts';
import { isAlive } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

interface OpenBackend {
  readonly backend: ExecBackend;
  close(): Promise<void>;
}

const BACKENDS: Readonly<Record<string, () => Promise<OpenBackend>>> = {
  'this machine': async () => {
    const environment = new LocalEnvironment();
    return { backend: environment.backend, close: () => environment.dispose() };
  },
  'a websocket': () => remote(overWebSocket()),
  stdio: () => remote(overStdio()),
};

async function remote(connecting: Promise<ConnectedClient>): Promise<OpenBackend> {
  const { client, close } = await connecting;
  return { backend: client.backend, close };
}

/** The tools in a new folder. Remaining programs end with the test. */
async function opened(open: () => Promise<OpenBackend>) {
  const { backend, close } = await open();
  const folder = mkdtempSync(join(tmpdir(), 'agent-'));
  const events: ExecEvent[] = [];
  const shell = { name: 'sh', path: '/bin/sh' };
  const exec = new AgentExec({
    targets: [{ id: 'here', backend, shell, cwd: pathToFileURL(folder).href }],
    allowLogin: false,
    onEvent: (event) => events.push(event),
  });
  onTestFinished(async () => {
    await exec.close();
    await close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { exec, events, folder };
}

const printed = (events: readonly ExecEvent[]) =>
  events.map((event) => (event.type === 'outputDelta' ? atob(event.chunk) : '')).join('');

describe.each(Object.entries(BACKENDS))('commands of a model on %s', (_, open) => {
  test('returns output, exit code and duration, and emits the events', async () => {
    const { exec, events, folder } = await opened(open);
    const answer = await exec.execCommand(
      { cmd: 'pwd; echo "$TERM $LANG $PAGER $CODEX_TOOL_CALL_ID"; cat; exit 7' },
      { callId: 'c1' },
    );
    expect(answer).toMatchObject({ exitCode: 7, sessionId: null });
    expect(answer.structured.output).toBe(`${folder}\ndumb C.UTF-8 cat c1\n`);
    expect(answer.structured.wall_time_seconds).toBeGreaterThan(0);
    expect(events.map(({ type }) => type).filter((type) => type !== 'outputDelta')).toEqual(['begin', 'end']);
    expect(events.at(-1)).toMatchObject({ exitCode: 7, aggregatedOutput: answer.structured.output });
    expect(printed(events)).toBe(answer.structured.output);
  });

  test.each(['01a1e096-8bbf-7dc1-a264-983df3779297', 'thread/1 of "x"'])(
    'gives a program the thread id %s',
    async (threadId) => {
      const { exec } = await opened(open);
      const answer = await exec.execCommand({ cmd: 'echo "$CODEX_THREAD_ID"' }, { callId: 'c1', threadId });
      expect(answer.structured.output).toBe(`${threadId}\n`);
    },
  );

  test('writes to and reads from a program on a terminal', async () => {
    const { exec, events } = await opened(open);
    const question = await exec.execCommand(
      {
        cmd: 'stty size; printf "name? "; read x; echo "hello <$x>"; exit 4',
        tty: true,
        yield_time_ms: 250,
      },
      { callId: 'c1' },
    );
    expect(question).toMatchObject({ exitCode: null, sessionId: expect.any(Number) });
    const session_id = question.sessionId!;
    await waitFor('the question', () => printed(events).includes('name? '));
    const answer = await exec.writeStdin({ session_id, chars: 'zoé\n', yield_time_ms: 30_000 });
    expect(answer).toMatchObject({ exitCode: 4, sessionId: null });
    expect(question.structured.output + answer.structured.output).toBe(
      '24 80\r\nname? zoé\r\nhello <zoé>\r\n',
    );
    await expect(exec.writeStdin({ session_id })).rejects.toMatchObject({ kind: 'unknownSession' });
  });

  test('interrupts a program', async () => {
    const { exec, events } = await opened(open);
    const started = await exec.execCommand(
      { cmd: 'trap "echo interrupted; exit 9" INT; echo ready; sleep 1000', yield_time_ms: 250 },
      { callId: 'c1' },
    );
    await waitFor('the program', () => printed(events).includes('ready'));
    const session_id = started.sessionId!;
    await expect(exec.writeStdin({ session_id, chars: 'x' })).rejects.toMatchObject({ kind: 'stdinClosed' });
    const ended = await exec.writeStdin({ session_id, chars: '\u0003', yield_time_ms: 30_000 });
    expect(ended).toMatchObject({ exitCode: 9, sessionId: null });
    expect(started.structured.output + ended.structured.output).toBe('ready\ninterrupted\n');
  });

  test('reports the exit of a program whose child keeps the output open, and terminates the child with the session', async () => {
    const { exec } = await opened(open);
    const answer = await exec.execCommand(
      { cmd: 'sleep 1000 & echo $!', yield_time_ms: 30_000 },
      { callId: 'c1' },
    );
    expect(answer).toMatchObject({ exitCode: 0, sessionId: expect.any(Number) });
    const pid = Number(answer.structured.output);
    expect(isAlive(pid)).toBe(true);
    expect(await exec.terminate(answer.sessionId!)).toBe(true);
    await waitFor('the end of what was left', () => !isAlive(pid));
  });

  test('keeps head and tail of large output', async () => {
    const { exec, events } = await opened(open);
    const answer = await exec.execCommand(
      { cmd: 'seq 1 400000', max_output_tokens: 50, yield_time_ms: 30_000 },
      { callId: 'c1' },
    );
    const { output, original_token_count } = answer.structured;
    expect(original_token_count).toBe(672_224);
    expect(output).toMatch(
      /^Warning: truncated output \(original token count: 672224\)\n\.\.\. 1640319 bytes omitted \.\.\.\n\n1\n/,
    );
    expect(output).toContain('\n36\n3…262102 tokens truncated…6\n399987\n');
    expect(printed(events)).toHaveLength(2_688_895);
  });

  test('keeps the program of an aborted call running', async () => {
    const { exec, folder, events } = await opened(open);
    const abort = new AbortController();
    const call = exec.execCommand(
      { cmd: 'echo before; until [ -e go ]; do sleep 0.02; done; echo after' },
      { callId: 'c1', signal: abort.signal },
    );
    await waitFor('the program', () => printed(events).includes('before'));
    abort.abort();
    const error = await call.catch((error) => error);
    expect(error).toMatchObject({ kind: 'aborted', sessionId: expect.any(Number) });
    await exec.execCommand({ cmd: 'touch go' }, { callId: 'c2' });
    expect(existsSync(join(folder, 'go'))).toBe(true);
    const look = await exec.writeStdin({ session_id: error.sessionId, yield_time_ms: 30_000 });
    expect(look).toMatchObject({ exitCode: 0, structured: { output: 'before\nafter\n' } });
  });

  test('reports a working directory that does not exist', async () => {
    const { exec, events } = await opened(open);
    const error = await exec
      .execCommand({ cmd: 'true', workdir: '/no/such/folder' }, { callId: 'c1' })
      .catch((error) => error);
    expect(error).toMatchObject({ kind: 'launchFailed', tool: 'exec_command' });
    expect(events).toEqual([]);
  });
});

test('a command loses no output when the connection is lost', async () => {
  const { client, proxy, close } = await overProxy();
  const { exec, events, folder } = await opened(async () => ({ backend: client.backend, close }));
  const call = exec.execCommand(
    {
      cmd: 'echo ready; until [ -e go ]; do sleep 0.02; done; seq 1 3000; touch done; exit 5',
      yield_time_ms: 30_000,
    },
    { callId: 'c1' },
  );
  await waitFor('the program', () => printed(events).includes('ready'));
  proxy.interrupt();
  await promisify(execFile)('touch', [join(folder, 'go')]);
  await waitFor('the output of the outage', () => existsSync(join(folder, 'done')));
  proxy.restore();
  const answer = await call;
  expect(answer).toMatchObject({ exitCode: 5, sessionId: null });
  const numbers = Array.from({ length: 3000 }, (_, index) => `${index + 1}\n`).join('');
  expect(answer.structured.output).toBe(`ready\n${numbers}`);
});

test('environmentTarget runs commands in an environment', async () => {
  const environment = new LocalEnvironment();
  onTestFinished(() => environment.dispose());
  const target = await environmentTarget(environment);
  expect(target).toEqual({
    id: 'local',
    backend: environment.backend,
    processes: environment.processes,
    shell: { name: expect.any(String), path: expect.stringMatching(/^\//) },
    cwd: pathToFileURL(process.cwd()).href,
  });
  expect(await environmentTarget(environment, { cwd: 'file:///tmp' })).toMatchObject({ cwd: 'file:///tmp' });
});

test('the example prints the text for the model', async () => {
  const example = fileURLToPath(new URL('../../examples/agent-exec.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [example]);
  expect(stdout).toBe(
    `tools: exec_command, write_stdin

# a command
Process exited with code 3
Original token count: 3
Output:
/tmp
oops

# a question
Process running with session ID N
Original token count: 2
Output:
name?\x20

# its answer
Process exited with code 0
Original token count: 4
Output:
bob\r
hello bob\r

# a mistake
write_stdin failed: there is no session N; it never existed, or its end has been reported

2 programs begun, 2 ended
`,
  );
});
