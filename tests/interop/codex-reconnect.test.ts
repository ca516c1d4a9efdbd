import { expect } from 'vitest';
import { TcpProxy } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';
import type { CodexRun } from './codex-client.ts';
import { scenarios } from './scenarios.ts';
import { RUNNING } from './tool-output.ts';
import type { WireTap } from './wire-tap.ts';
import type { ServerKind, World } from './world.ts';

scenarios('failing links', (scenario, kind) => {
  scenario('the connection is down for a while', async (world) => {
    const { tap } = world;
    await throughProxy(world, async (proxy, run) => {
      const command = `seq 1 5000; ${gate('cut')}; for i in $(seq 5001 5060); do echo $i; sleep 0.02; done; touch printed;
        ${gate('restored')}; seq 5061 5100; exit 5`;
      const started = await run.exec(command, { yield_time_ms: 250 });
      expect(started).toMatchObject(RUNNING);
      const disturb = async () => {
        await tap.printed('\n5000\n');
        proxy.interrupt();
        run.touch('cut');
        await run.appeared('printed');
        proxy.restore();
        await tap.answeredAfterReconnect('process/read');
        run.touch('restored');
      };
      const [ended] = await Promise.all([run.writeStdin(started.sessionId, '', 30_000), disturb()]);
      expect(ended).toMatchObject({ exitCode: 5, sessionId: null });
      expect(started.output + ended.output).toBe(lines(5100));
      await run.finish();
    });
    expectResumedOnce(tap, kind);
    expect(tap.processEvents.text()).toBe(lines(5100));
    await world.noPrograms();
  });

  scenario('the connection breaks during heavy output', async (world) => {
    const { tap } = world;
    await throughProxy(world, async (proxy, run) => {
      const started = await run.exec(`${gate('go')}; seq 1 100000; exit 5`, { yield_time_ms: 250 });
      expect(started).toMatchObject(RUNNING);
      const disturb = async () => {
        run.touch('go');
        await tap.waitFor(({ method, params }) => method === 'process/output' && params.seq === 2, 'output');
        proxy.drop();
      };
      const [ended] = await Promise.all([run.writeStdin(started.sessionId, '', 30_000), disturb()]);
      const whole = lines(100_000);
      expect(ended).toMatchObject({ exitCode: 5, originalTokens: Math.ceil(whole.length / 4) });
      const { commands } = await run.finish();
      expect(commands[0]?.aggregated_output === whole).toBe(true);
    });
    expectResumedOnce(tap, kind);
  });

  scenario('the command ends while the connection is down', async (world) => {
    const { tap } = world;
    await throughProxy(world, async (proxy, run) => {
      const started = await run.exec(`echo before; ${gate('cut')}; echo after; exit 5`, {
        yield_time_ms: 250,
      });
      expect(started).toMatchObject(RUNNING);
      const disturb = async () => {
        proxy.interrupt();
        run.touch('cut');
        await world.noPrograms();
        proxy.restore();
      };
      const [ended] = await Promise.all([run.writeStdin(started.sessionId, '', 30_000), disturb()]);
      expect(ended).toMatchObject({ exitCode: 5, sessionId: null });
      expect(started.output + ended.output).toBe('before\nafter\n');
      await run.finish();
    });
    expectResumedOnce(tap, kind);
    const read = tap.answerTo(tap.call('process/read'));
    expect(read?.result).toMatchObject({ exited: true, exitCode: 5, closed: true, failure: null });
  });

  scenario('the response to a write is lost', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const script = 'read a; echo "first <$a>"; read b; echo "second <$b>"; exit 4';
    const started = await run.exec(script, { tty: true, yield_time_ms: 250 });
    expect(started).toMatchObject(RUNNING);
    tap.loseNextAnswerTo('process/write');
    const first = await run.writeStdin(started.sessionId, 'one\n');
    await tap.printed('first <one>');
    const second = await run.writeStdin(started.sessionId, 'two\n', 20_000);
    expect(second).toMatchObject({ exitCode: 4, sessionId: null });
    const screen = [started, first, second].map(({ output }) => output).join('');
    expect(screen).toBe('one\r\nfirst <one>\r\ntwo\r\nsecond <two>\r\n');
    await run.finish();

    const writes = tap.calls('process/write');
    expect(writes.map(({ connection, params }) => [connection, params.writeId, params.chunk])).toEqual([
      [1, '1', 'b25lCg=='],
      [2, '1', 'b25lCg=='],
      [2, '2', 'dHdvCg=='],
    ]);
    for (const write of writes) expect(tap.answerTo(write)?.result).toEqual({ status: 'accepted' });
    expectResumedOnce(tap, kind);
  });

  scenario('the response to a start is lost', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    tap.loseNextAnswerTo('process/start');
    const failed = await run.exec('sleep 1000');
    expect(failed).toMatchObject({ exitCode: null, sessionId: null });
    expect(failed.text).toContain('disconnected');
    await tap.answeredAfterReconnect('process/terminate');
    await world.noPrograms();
    expect(await run.exec('echo and on')).toMatchObject({ output: 'and on\n', exitCode: 0 });
    await run.finish();
    expectResumedOnce(tap, kind);
  });

  scenario('the server does not notice that the connection is gone', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    const started = await run.exec(`echo before; ${gate('restored')}; echo after; exit 5`, {
      yield_time_ms: 250,
    });
    expect(started).toMatchObject(RUNNING);
    const refusals = () => tap.messages.filter(({ error }) => error?.code === ALREADY_ATTACHED);
    const disturb = async () => {
      tap.dropClientSides();
      await waitFor('three refusals', () => refusals().length >= 3);
      tap.dropServerSides();
      await tap.answeredAfterReconnect('process/read');
      run.touch('restored');
    };
    const [ended] = await Promise.all([run.writeStdin(started.sessionId, '', 30_000), disturb()]);
    expect(ended).toMatchObject({ exitCode: 5, sessionId: null });
    expect(started.output + ended.output).toBe('before\nafter\n');
    await run.finish();

    const [first, ...attempts] = tap.calls('initialize').map((request) => tap.answerTo(request));
    expect(attempts.length).toBeGreaterThan(3);
    expect(attempts.at(-1)?.result?.sessionId).toBe(first?.result?.sessionId);
    for (const attempt of attempts.slice(0, -1)) expect(attempt?.error?.code).toBe(ALREADY_ATTACHED);
  });
});

const ALREADY_ATTACHED = -32010;

async function throughProxy(
  world: World,
  play: (proxy: TcpProxy, run: CodexRun) => Promise<void>,
): Promise<void> {
  const proxy = await TcpProxy.open(world.tap.url);
  try {
    await play(proxy, await world.codex({ url: proxy.url }));
  } finally {
    await proxy.close();
  }
}

/** Shell text that waits for a file in the workspace. */
function gate(file: string): string {
  return `until [ -e ${file} ]; do sleep 0.02; done`;
}

/** What `seq 1 last` prints. */
function lines(last: number): string {
  return Array.from({ length: last }, (_, index) => `${index + 1}\n`).join('');
}

/**
 * The client resumed its session with the first attempt that reached the server. The reference may refuse attempts before that: it handles
 * the end of the old connection and the new connection in two threads, in either order.
 */
function expectResumedOnce(tap: WireTap, kind: ServerKind): void {
  const attempts = tap.calls('initialize').map((request) => {
    const { result, error } = tap.answerTo(request) ?? {};
    return { resumes: request.params.resumeSessionId ?? null, session: result?.sessionId, error };
  });
  const reached = attempts.filter(({ error }) => kind === 'exec-server' || error?.code !== ALREADY_ATTACHED);
  const { session } = attempts[0]!;
  expect(reached).toEqual([
    { resumes: null, session, error: null },
    { resumes: session, session, error: null },
  ]);
}
