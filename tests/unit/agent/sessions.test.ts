import { describe, expect, test } from 'vitest';
import { MAX_BUSY_SESSIONS, MAX_SESSIONS } from '../../../src/agent/limits.ts';
import { settled } from './manual-clock.ts';
import { Stage } from './stage.ts';

describe('list', () => {
  test('names what runs, in the order of ids', async () => {
    const ids = [0.5, 0.9, 0.1, 0.9];
    const stage = new Stage({ random: () => ids.shift() ?? 0 });
    await stage.running({ cmd: 'high' });
    await stage.running({ cmd: 'low', workdir: 'x' });
    expect(stage.agent.list()).toEqual([
      { itemId: 'call-1', processId: '10900', command: ['/bin/bash', '-lc', 'low'], cwd: 'file:///ws/x' },
      { itemId: 'call-1', processId: '50500', command: ['/bin/bash', '-lc', 'high'], cwd: 'file:///ws' },
    ]);
    stage.backend.last.end(0);
    await settled();
    expect(stage.agent.list().map(({ processId }) => processId)).toEqual(['50500']);
  });
});

describe('terminate', () => {
  test('ends a program and its session', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    expect(await stage.agent.terminate(id)).toBe(true);
    expect(process.calls).toEqual(['terminate']);
    expect(await stage.agent.terminate(id)).toBe(false);
    expect((await stage.write({ session_id: id })).error).toMatchObject({ kind: 'unknownSession' });
    process.end(137);
    await settled();
    expect(stage.story.at(-1)).toBe('end 137 failed');
  });

  test('that fails leaves the session', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    process.terminateResult = new Error('cannot be reached');
    await expect(stage.agent.terminate(id)).rejects.toThrow('cannot be reached');
    expect(stage.agent.list()).toHaveLength(1);
  });

  test('a call that is under way reports the end', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    expect(await stage.agent.terminate(1000)).toBe(true);
    stage.backend.last.end(137);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 137, sessionId: null });
  });

  test('a program that has ended is not asked to', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    process.end(0);
    await settled();
    expect(await stage.agent.terminate(id)).toBe(true);
    expect(process.calls).toEqual([]);
  });

  test('all at once, whether or not each can be reached', async () => {
    const stage = new Stage();
    const one = await stage.running();
    const other = await stage.running();
    one.process.terminateResult = new Error('cannot be reached');
    await stage.agent.terminateAll();
    expect(other.process.calls).toEqual(['terminate']);
    expect(stage.agent.list().map(({ processId }) => Number(processId))).toEqual([one.id]);
  });
});

describe('close', () => {
  test('ends everything, tells it, and refuses calls', async () => {
    const stage = new Stage();
    const { process, id } = await stage.running();
    const closing = stage.agent.close();
    await settled();
    process.end(137);
    await closing;
    expect(stage.story.at(-1)).toBe('end 137 failed');
    expect((await stage.exec()).error).toMatchObject({ kind: 'closed' });
    expect((await stage.write({ session_id: id })).error).toMatchObject({ kind: 'closed' });
    expect(stage.clock.timers).toBe(0);
  });

  test('does not wait for ever, and neither does a call', async () => {
    const stage = new Stage();
    const call = await stage.exec();
    stage.backend.last.output('x');
    const closing = stage.agent.close();
    await stage.clock.advance(1_000);
    await closing;
    expect(call).toMatchObject({
      text: 'x',
      error: { kind: 'processFailed', message: 'the agent is closed' },
    });
    expect(stage.story.at(-1)).toBe('end -1 failed');
  });

  test('a program that is started meanwhile is ended', async () => {
    const stage = new Stage();
    let go = () => {};
    stage.backend.onStart = () =>
      new Promise((resolve) => {
        go = resolve;
      });
    const call = await stage.exec();
    await stage.agent.close();
    go();
    await settled();
    expect(call.error).toMatchObject({ kind: 'closed' });
    expect(stage.backend.last.calls).toEqual(['terminate']);
    expect(stage.events).toEqual([]);
  });
});

describe('what cannot be ended', () => {
  test('is not followed for ever: its output stays open', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    process.exit(0);
    await stage.agent.terminate(id);
    await stage.clock.advance(9_999);
    expect(stage.story).toHaveLength(1);
    await stage.clock.advance(1);
    expect(stage.story.at(-1)).toBe('end -1 failed');
    expect(stage.clock.timers).toBe(0);
  });

  test('is not followed for ever: it cannot be reached', async () => {
    const stage = new Stage();
    const { process } = await stage.running();
    process.terminateResult = new Error('cannot be reached');
    for (let count = 0; count < MAX_SESSIONS; count++) await stage.running();
    expect(process.calls).toEqual(['terminate']);
    await stage.clock.advance(10_000);
    expect(stage.story.at(-1)).toBe('end -1 failed');
  });
});

describe('bounds', () => {
  test('the least recently used program makes room', async () => {
    const stage = new Stage();
    const first = await stage.running();
    const second = await stage.running();
    for (let count = 2; count < MAX_SESSIONS; count++) await stage.running();
    const look = await stage.write({ session_id: first.id });
    await stage.clock.advance(5_000);
    expect(look.output).not.toBeNull();
    expect(stage.backend.started.flatMap(({ calls }) => calls)).toEqual([]);
    await stage.running();
    expect(stage.agent.list()).toHaveLength(MAX_SESSIONS);
    expect(second.process.calls).toEqual(['terminate']);
    expect((await stage.write({ session_id: second.id })).error).toMatchObject({ kind: 'unknownSession' });
  });

  test('a command that ends at once takes no room', async () => {
    const stage = new Stage();
    for (let count = 0; count < MAX_SESSIONS; count++) await stage.running();
    stage.backend.onStart = (process) => void process.end(0);
    expect((await stage.exec()).output).toMatchObject({ exitCode: 0 });
    expect(stage.agent.list()).toHaveLength(MAX_SESSIONS);
  });

  test('too many commands at once are refused', async () => {
    const stage = new Stage();
    const calls = await Promise.all(Array.from({ length: MAX_BUSY_SESSIONS }, () => stage.exec()));
    const refused = await stage.exec();
    expect(refused.error).toMatchObject({ kind: 'overloaded' });
    stage.backend.last.end(0);
    await settled();
    expect(calls.filter(({ output }) => output !== null)).toHaveLength(1);
    const next = await stage.exec();
    expect(next.error).toBeNull();
  });
});

test('the end of a call does not give back an id that another call has reserved since', async () => {
  let again = () => {};
  const stage = new Stage({
    random: () => 0,
    onEvent: (event) => {
      if (event.type === 'end') again();
    },
  });
  const first = await stage.exec();
  let starts = 0;
  const held = new Promise<void>(() => {});
  stage.backend.onStart = () => {
    starts++;
    return held;
  };
  again = () => void stage.exec({ cmd: 'second' });
  stage.backend.last.end(0);
  await settled();
  expect(first.output).toMatchObject({ exitCode: 0 });
  await stage.exec({ cmd: 'third' });
  const ids = stage.backend.started.map(({ processId }) => Number(processId.split('-')[0]));
  expect(starts).toBe(2);
  expect(ids).toEqual([1000, 1000, 1001]);
});
