import { describe, expect, test } from 'vitest';
import { MAX_BUSY_SESSIONS, MAX_SESSIONS } from '../../../src/agent/limits.ts';
import { AgentFixture } from './agent-fixture.ts';
import { settled } from './manual-clock.ts';

describe('list', () => {
  test('returns running programs ordered by id', async () => {
    const ids = [0.5, 0.9, 0.1, 0.9];
    const fixture = new AgentFixture({ random: () => ids.shift() ?? 0 });
    await fixture.running({ cmd: 'high' });
    await fixture.running({ cmd: 'low', workdir: 'x' });
    expect(fixture.agent.list()).toEqual([
      {
        itemId: 'call-1',
        processId: '10900',
        ref: null,
        command: ['/bin/bash', '-lc', 'low'],
        cwd: 'file:///ws/x',
      },
      {
        itemId: 'call-1',
        processId: '50500',
        ref: null,
        command: ['/bin/bash', '-lc', 'high'],
        cwd: 'file:///ws',
      },
    ]);
    fixture.backend.last.end(0);
    await settled();
    expect(fixture.agent.list().map(({ processId }) => processId)).toEqual(['50500']);
  });
});

describe('terminate', () => {
  test('terminates a program and removes its session', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    expect(await fixture.agent.terminate(id)).toBe(true);
    expect(process.calls).toEqual(['terminate']);
    expect(await fixture.agent.terminate(id)).toBe(false);
    expect((await fixture.write({ session_id: id })).error).toMatchObject({ kind: 'unknownSession' });
    process.end(137);
    await settled();
    expect(fixture.story.at(-1)).toBe('end 137 failed');
  });

  test('keeps the session when it fails', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    process.terminateResult = new Error('cannot be reached');
    await expect(fixture.agent.terminate(id)).rejects.toThrow('cannot be reached');
    expect(fixture.agent.list()).toHaveLength(1);
  });

  test('lets a call that is under way return the end', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    expect(await fixture.agent.terminate(1000)).toBe(true);
    fixture.backend.last.end(137);
    await settled();
    expect(call.output).toMatchObject({ exitCode: 137, sessionId: null });
  });

  test('does not terminate an ended program', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    process.end(0);
    await settled();
    expect(await fixture.agent.terminate(id)).toBe(true);
    expect(process.calls).toEqual([]);
  });

  test('terminates all programs, even if some are unreachable', async () => {
    const fixture = new AgentFixture();
    const one = await fixture.running();
    const other = await fixture.running();
    one.process.terminateResult = new Error('cannot be reached');
    await fixture.agent.terminateAll();
    expect(other.process.calls).toEqual(['terminate']);
    expect(fixture.agent.list().map(({ processId }) => Number(processId))).toEqual([one.id]);
  });
});

describe('close', () => {
  test('terminates all programs, emits their end events and rejects calls', async () => {
    const fixture = new AgentFixture();
    const { process, id } = await fixture.running();
    const closing = fixture.agent.close();
    await settled();
    process.end(137);
    await closing;
    expect(fixture.story.at(-1)).toBe('end 137 failed');
    expect((await fixture.exec()).error).toMatchObject({ kind: 'closed' });
    expect((await fixture.write({ session_id: id })).error).toMatchObject({ kind: 'closed' });
    expect(fixture.clock.timers).toBe(0);
  });

  test('has a time limit, which also ends calls', async () => {
    const fixture = new AgentFixture();
    const call = await fixture.exec();
    fixture.backend.last.output('x');
    const closing = fixture.agent.close();
    await fixture.clock.advance(1_000);
    await closing;
    expect(call).toMatchObject({
      text: 'x',
      error: { kind: 'processFailed', message: 'the agent is closed' },
    });
    expect(fixture.story.at(-1)).toBe('end -1 failed');
  });

  test('terminates a program that is being started', async () => {
    const fixture = new AgentFixture();
    let go = () => {};
    fixture.backend.onStart = () =>
      new Promise((resolve) => {
        go = resolve;
      });
    const call = await fixture.exec();
    await fixture.agent.close();
    go();
    await settled();
    expect(call.error).toMatchObject({ kind: 'closed' });
    expect(fixture.backend.last.calls).toEqual(['terminate']);
    expect(fixture.events).toEqual([]);
  });
});

describe('a program that cannot be terminated', () => {
  test('is followed for a limited time when its output stays open', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    process.exit(0);
    await fixture.agent.terminate(id);
    await fixture.clock.advance(9_999);
    expect(fixture.story).toHaveLength(1);
    await fixture.clock.advance(1);
    expect(fixture.story.at(-1)).toBe('end -1 failed');
    expect(fixture.clock.timers).toBe(0);
  });

  test('is followed for a limited time when it is unreachable', async () => {
    const fixture = new AgentFixture();
    const { process } = await fixture.running();
    process.terminateResult = new Error('cannot be reached');
    for (let count = 0; count < MAX_SESSIONS; count++) await fixture.running();
    expect(process.calls).toEqual(['terminate']);
    await fixture.clock.advance(10_000);
    expect(fixture.story.at(-1)).toBe('end -1 failed');
  });
});

describe('limits', () => {
  test('evict the least recently used program', async () => {
    const fixture = new AgentFixture();
    const first = await fixture.running();
    const second = await fixture.running();
    for (let count = 2; count < MAX_SESSIONS; count++) await fixture.running();
    const look = await fixture.write({ session_id: first.id });
    await fixture.clock.advance(5_000);
    expect(look.output).not.toBeNull();
    expect(fixture.backend.started.flatMap(({ calls }) => calls)).toEqual([]);
    await fixture.running();
    expect(fixture.agent.list()).toHaveLength(MAX_SESSIONS);
    expect(second.process.calls).toEqual(['terminate']);
    expect((await fixture.write({ session_id: second.id })).error).toMatchObject({ kind: 'unknownSession' });
  });

  test('do not count a command that ends immediately', async () => {
    const fixture = new AgentFixture();
    for (let count = 0; count < MAX_SESSIONS; count++) await fixture.running();
    fixture.backend.onStart = (process) => void process.end(0);
    expect((await fixture.exec()).output).toMatchObject({ exitCode: 0 });
    expect(fixture.agent.list()).toHaveLength(MAX_SESSIONS);
  });

  test('reject too many concurrent commands', async () => {
    const fixture = new AgentFixture();
    const calls = await Promise.all(Array.from({ length: MAX_BUSY_SESSIONS }, () => fixture.exec()));
    const refused = await fixture.exec();
    expect(refused.error).toMatchObject({ kind: 'overloaded' });
    fixture.backend.last.end(0);
    await settled();
    expect(calls.filter(({ output }) => output !== null)).toHaveLength(1);
    const next = await fixture.exec();
    expect(next.error).toBeNull();
  });
});

test('the end of a call does not release an id that another call reserved', async () => {
  let again = () => {};
  const fixture = new AgentFixture({
    random: () => 0,
    onEvent: (event) => {
      if (event.type === 'end') again();
    },
  });
  const first = await fixture.exec();
  let starts = 0;
  const held = new Promise<void>(() => {});
  fixture.backend.onStart = () => {
    starts++;
    return held;
  };
  again = () => void fixture.exec({ cmd: 'second' });
  fixture.backend.last.end(0);
  await settled();
  expect(first.output).toMatchObject({ exitCode: 0 });
  await fixture.exec({ cmd: 'third' });
  const ids = fixture.backend.started.map(({ processId }) => Number(processId.split('-')[0]));
  expect(starts).toBe(2);
  expect(ids).toEqual([1000, 1000, 1001]);
});
