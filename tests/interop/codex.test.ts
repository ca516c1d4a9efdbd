import { expect } from 'vitest';
import { isAlive } from '../support/machine.ts';
import { scenarios } from './scenarios.ts';
import { RUNNING } from './tool-output.ts';

scenarios('commands', (scenario, kind) => {
  scenario('a command that succeeds', async (world) => {
    const { tap } = world;
    const run = await world.codex({ configuredBy: 'file' });
    const answer = await run.exec('pwd; cat; echo err >&2; echo "$PAGER"');
    expect(answer).toMatchObject({ exitCode: 0, sessionId: null });
    expect(answer.output.split('\n').sort()).toEqual(['', run.workspace, 'cat', 'err']);
    const { commands } = await run.finish();
    expect(commands).toMatchObject([{ aggregated_output: answer.output, exit_code: 0, status: 'completed' }]);

    const start = tap.call('process/start');
    expect(start.params).toMatchObject({ tty: false, pipeStdin: false, cwd: `file://${run.workspace}` });
    const process = tap.processEvents;
    expect(process).toMatchObject({ complete: true, repeated: 0, exitCode: 0 });
    expect(process.text('stdout')).toBe(`${run.workspace}\ncat\n`);
    expect(process.text('stderr')).toBe('err\n');
    const terminate = tap.calls('process/terminate')[0]!;
    expect(tap.answerTo(terminate)?.result).toEqual({ running: false });
    await world.noPrograms();
  });

  scenario('a command that fails', async (world) => {
    const { tap } = world;
    const run = await world.codex({ configuredBy: 'variable' });
    const answer = await run.exec('echo no luck; exit 7');
    expect(answer).toMatchObject({ output: 'no luck\n', exitCode: 7, sessionId: null });
    const { commands } = await run.finish();
    expect(commands).toMatchObject([{ aggregated_output: 'no luck\n', exit_code: 7, status: 'failed' }]);
    expect(tap.processEvents).toMatchObject({ complete: true, exitCode: 7 });
  });

  scenario('a terminal program that prompts twice', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const script =
      'test -t 0 && stty size; printf "name? "; read x; echo "hello <$x>"; read y; echo "bye <$y>"; exit 4';
    const started = await run.exec(script, { tty: true, yield_time_ms: 250 });
    expect(started).toMatchObject(RUNNING);
    await tap.printed('name? ');
    const first = await run.writeStdin(started.sessionId, 'bob\n');
    await tap.printed('hello <bob>');
    const second = await run.writeStdin(started.sessionId, 'zoé €\n', 20_000);
    expect(second).toMatchObject({ exitCode: 4, sessionId: null });
    const screen = [started, first, second].map(({ output }) => output).join('');
    expect(screen).toBe('24 80\r\nname? bob\r\nhello <bob>\r\nzoé €\r\nbye <zoé €>\r\n');
    await run.finish();

    expect(tap.processEvents).toMatchObject({ complete: true, repeated: 0, exitCode: 4 });
    expect(tap.processEvents.text('pty')).toBe(screen);
    const writes = tap.calls('process/write');
    expect(writes.map(({ params }) => [params.writeId, fromBase64(params.chunk)])).toEqual([
      ['1', 'bob\n'],
      ['2', 'zoé €\n'],
    ]);
    for (const write of writes) expect(tap.answerTo(write)?.result).toEqual({ status: 'accepted' });
  });

  scenario('^C to a command without a terminal', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    // The shell handles the signal only after its child has exited, so both must receive it.
    const started = await run.exec('trap "echo interrupted; exit 9" INT; echo ready; sleep 1000', {
      yield_time_ms: 250,
    });
    expect(started).toMatchObject(RUNNING);
    await tap.printed('ready');
    const interrupted = await run.writeStdin(started.sessionId, '\u0003', 20_000);
    expect(interrupted).toMatchObject({ exitCode: 9, sessionId: null });
    expect(started.output + interrupted.output).toBe('ready\ninterrupted\n');
    await run.finish();

    const signal = tap.call('process/signal');
    expect(signal.params).toMatchObject({ signal: 'interrupt' });
    expect(tap.answerTo(signal)?.result).toEqual({});
    expect(tap.calls('process/write')).toEqual([]);
    expect(tap.processEvents).toMatchObject({ complete: true, exitCode: 9 });
    await world.noPrograms();
  });

  scenario('^C to a terminal', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const command = 'trap "echo interrupted; exit 9" INT; echo ready; sleep 1000';
    const started = await run.exec(command, { tty: true, yield_time_ms: 250 });
    expect(started).toMatchObject(RUNNING);
    await tap.printed('ready');
    const interrupted = await run.writeStdin(started.sessionId, '\u0003', 20_000);
    expect(interrupted).toMatchObject({ exitCode: 9, sessionId: null });
    expect(started.output + interrupted.output).toBe('ready\r\n^Cinterrupted\r\n');
    await run.finish();

    expect(tap.calls('process/signal')).toEqual([]);
    expect(fromBase64(tap.call('process/write').params.chunk)).toBe('\u0003');
    expect(tap.processEvents).toMatchObject({ complete: true, exitCode: 9 });
    await world.noPrograms();
  });

  scenario('five megabytes of output', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const whole = Array.from({ length: 800_000 }, (_, index) => `${index + 1}\n`).join('');
    const answer = await run.exec('seq 1 800000; exit 3', { yield_time_ms: 30_000 });
    expect(answer.exitCode).toBe(3);
    expect(answer.output.endsWith(whole.slice(-10_000))).toBe(true);
    const { commands } = await run.finish();
    const process = tap.processEvents;
    expect(process).toMatchObject({ complete: true, repeated: 0, exitCode: 3 });
    expect(process.text('stdout') === whole).toBe(true);

    // On a busy machine codex falls behind the small chunks of the reference and silently loses some.
    if (kind === 'reference') return;
    expect(answer.originalTokens).toBe(Math.ceil(whole.length / 4));
    expect(answer.output).toContain(whole.slice(0, 10_000));
    // Codex keeps 1 MiB: the first and the last 512 KiB.
    const [head, tail] = [whole.slice(0, 512 * 1024), whole.slice(-512 * 1024)];
    const kept = `${head}\n... ${whole.length - 1024 * 1024} bytes omitted ...\n${tail}`;
    expect(commands[0]?.aggregated_output === kept).toBe(true);
  });

  scenario('a command in the background', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const escapee = kind === 'exec-server' ? 'setsid sleep 1000 &' : '';
    const command = `${escapee} sleep 1000 & echo early; until [ -e go ]; do sleep 0.02; done; echo later; sleep 1000; true`;
    const started = await run.exec(command, { yield_time_ms: 250 });
    expect(started).toMatchObject(RUNNING);
    run.touch('go');
    const meanwhile = await run.exec('echo another');
    expect(meanwhile).toMatchObject({ output: 'another\n', exitCode: 0 });
    const polled = await run.writeStdin(started.sessionId, '', 5_000);
    expect(polled).toMatchObject({ exitCode: null, sessionId: started.sessionId });
    expect(started.output + polled.output).toBe('early\nlater\n');
    expect(world.programs().length).toBeGreaterThanOrEqual(kind === 'exec-server' ? 4 : 3);

    await run.finish();
    await world.noPrograms();
    // Codex does not wait for the response, so it may arrive too late.
    const [background] = tap.calls('process/start');
    const ended = tap.calls('process/terminate').map(({ params }) => params.processId);
    expect(ended).toContain(background!.params.processId);
  });

  scenario('a background program that outlives its command', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const answer = await run.exec('nohup sleep 1000 </dev/null >/dev/null 2>&1 & echo $!');
    expect(answer).toMatchObject({ exitCode: 0, sessionId: null });
    const pid = Number(answer.output);
    try {
      // Codex terminates every command, including finished ones.
      await tap.waitFor(({ method }) => method === 'process/terminate', 'process/terminate');
      expect(await run.exec('echo and on')).toMatchObject({ output: 'and on\n', exitCode: 0 });
      await run.finish();
      expect(isAlive(pid)).toBe(true);
    } finally {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    }
  });

  scenario('two concurrent runs of codex', async (world) => {
    const { tap } = world;
    const [left, right] = [await world.codex(), await world.codex()];
    const meet = (own: string, other: string) =>
      `echo ${own} here; touch ${left.workspace}/${own}; until [ -e ${left.workspace}/${other} ]; do sleep 0.02; done; echo ${own} met ${other}`;
    const answers = await Promise.all([left.exec(meet('left', 'right')), right.exec(meet('right', 'left'))]);
    expect(answers.map(({ output }) => output)).toEqual([
      'left here\nleft met right\n',
      'right here\nright met left\n',
    ]);

    const endless = await left.exec('sleep 1000', { yield_time_ms: 250 });
    const asking = await right.exec('read x; echo "got <$x>"; exit 5', { tty: true, yield_time_ms: 250 });
    expect([endless, asking]).toMatchObject([RUNNING, RUNNING]);
    expect(world.programs().length).toBeGreaterThanOrEqual(2);
    await left.finish();
    const asked = await right.writeStdin(asking.sessionId, 'still here\n', 20_000);
    expect(asked).toMatchObject({ output: 'still here\r\ngot <still here>\r\n', exitCode: 5 });
    await right.finish();

    await world.noPrograms();
    const sessions = tap.calls('initialize').map((request) => tap.answerTo(request)?.result?.sessionId);
    expect(sessions.length).toBe(2);
    expect(new Set(sessions).size).toBe(2);
  });

  scenario('a program that does not exist', async (world) => {
    const run = await world.codex();
    const answer = await run.exec('/no/such/program');
    expect(answer.exitCode).toBe(127);
    expect(answer.output).toMatch(/\/no\/such\/program: No such file or directory/);
    await run.finish();
  });

  scenario('a folder that does not exist', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    // The reference starts a terminal in the home folder instead.
    for (const tty of kind === 'exec-server' ? [false, true] : [false]) {
      const refused = await run.exec('echo never', { workdir: '/no/such/folder', tty });
      const reason = tap.answerTo(tap.calls('process/start').at(-1)!)?.error;
      expect(reason?.code).toBe(-32603);
      expect(refused).toMatchObject({ exitCode: null, sessionId: null });
      expect(refused.text).toContain(`exec-server rejected request (-32603): ${reason?.message}`);
    }
    expect(await run.exec('echo and on')).toMatchObject({ output: 'and on\n', exitCode: 0 });
    await run.finish();
    await world.noPrograms();
  });
});

function fromBase64(chunk: unknown): string {
  return Buffer.from(String(chunk), 'base64').toString();
}
