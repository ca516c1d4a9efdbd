import { describe, expect, test } from 'vitest';
import { EXECUTOR_TIMEOUT_MS, MAX_WAITING_CALLS } from '../../../src/agent/limits.ts';
import { ClientError, type ClientErrorKind } from '../../../src/client/errors.ts';
import { settled } from './manual-clock.ts';
import { Stage } from './stage.ts';

describe('a look without input', () => {
  test.each([
    [undefined, undefined, 5_000],
    [1, undefined, 5_000],
    [20_000, undefined, 20_000],
    [999_999, undefined, 300_000],
    [20_000, 9_000, 9_000],
    [20_000, 10, 5_000],
  ])('of %s ms where at most %s are allowed takes %s', async (yield_time_ms, maxPollMs, ms) => {
    const stage = new Stage(maxPollMs === undefined ? {} : { maxPollMs });
    const { id, process } = await stage.running();
    const look = await stage.write({
      session_id: id,
      ...(yield_time_ms === undefined ? {} : { yield_time_ms }),
    });
    await stage.clock.advance(ms - 1);
    expect(look.output).toBeNull();
    await stage.clock.advance(1);
    expect(look.output).toMatchObject({ sessionId: id, exitCode: null });
    expect(look.output?.text).toContain(`Wall time: ${(ms / 1000).toFixed(4)} seconds\n`);
    expect(process.calls).toEqual([]);
  });

  test('returns when the program ends, and the session is gone', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    const look = await stage.write({ session_id: id });
    process.output('bye').end(4);
    await settled();
    expect(look).toMatchObject({ text: 'bye', output: { exitCode: 4, sessionId: null } });
    const again = await stage.write({ session_id: id });
    expect(again.error).toMatchObject({ kind: 'unknownSession' });
    expect(again.error?.text).toBe(
      `write_stdin failed: there is no session ${id}; it never existed, or its end has been reported`,
    );
    expect(process.calls).toEqual([]);
  });

  test('of a program that ended meanwhile returns at once', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    process.output('bye').end(0);
    await settled();
    expect(await stage.write({ session_id: id, chars: 'too late' })).toMatchObject({
      text: 'bye',
      output: { exitCode: 0, sessionId: null },
    });
    expect(process.calls).toEqual([]);
  });

  test('that is aborted leaves the output for the next', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    const abort = new AbortController();
    const look = await stage.write({ session_id: id }, { signal: abort.signal });
    process.output('kept');
    await settled();
    abort.abort();
    await settled();
    expect(look.error).toMatchObject({ kind: 'aborted', sessionId: id });
    process.end(0);
    expect(await stage.write({ session_id: id })).toMatchObject({ text: 'kept' });
  });
});

describe('input', () => {
  test.each([
    [undefined, 350],
    [10, 350],
    [1_000, 1_100],
    [99_000, 30_100],
  ])('for a terminal is written, then watched %s ms: %s', async (yield_time_ms, ms) => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    const call = await stage.write({
      session_id: id,
      chars: 'bob\n',
      ...(yield_time_ms === undefined ? {} : { yield_time_ms }),
    });
    expect(process.calls).toEqual(['write "bob\\n"']);
    process.output('hello bob', 'pty');
    await stage.clock.advance(ms - 1);
    expect(call.output).toBeNull();
    await stage.clock.advance(1);
    expect(call).toMatchObject({ text: 'hello bob', output: { sessionId: id } });
  });

  test('an interrupt for a terminal is a byte, and elsewhere a signal', async () => {
    const stage = new Stage();
    const terminal = await stage.running({ tty: true });
    await stage.write({ session_id: terminal.id, chars: '\u0003' });
    expect(terminal.process.calls).toEqual(['write "\\u0003"']);
    const plain = await stage.running();
    await stage.write({ session_id: plain.id, chars: '\u0003' });
    expect(plain.process.calls).toEqual(['signal interrupt']);
  });

  test('other than an interrupt is refused without a terminal', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    const call = await stage.write({ session_id: id, chars: 'x\u0003' });
    expect(call.error).toMatchObject({ kind: 'stdinClosed', sessionId: id, message: /tty=true/ });
    expect(process.calls).toEqual([]);
    expect(stage.agent.list()).toHaveLength(1);
  });

  test('for a program that is still starting can be tried again', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    process.writeResult = 'starting';
    const call = await stage.write({ session_id: id, chars: 'x' });
    expect(call.error).toMatchObject({ kind: 'writeFailed', sessionId: id });
    process.writeResult = 'accepted';
    const again = await stage.write({ session_id: id, chars: 'x' });
    await stage.clock.advance(350);
    expect(again.output).toMatchObject({ sessionId: id });
  });

  test.each(['unknownProcess', 'stdinClosed'] as const)(
    'that finds the program gone (%s) reports its end',
    async (status) => {
      const stage = new Stage();
      const { id, process } = await stage.running({ tty: true });
      process.writeResult = status;
      const call = await stage.write({ session_id: id, chars: 'x' });
      await stage.clock.advance(100);
      process.output('last words', 'pty').end(9);
      await settled();
      expect(call).toMatchObject({ text: 'last words', output: { exitCode: 9, sessionId: null } });
      expect(stage.story).not.toContain('typed "x"');
    },
  );

  test('for a program that the executor has forgotten fails, with the output that there was', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    process.output('before', 'pty');
    process.writeResult = 'unknownProcess';
    const call = await stage.write({ session_id: id, chars: 'x' });
    await stage.clock.advance(250);
    expect(call).toMatchObject({ text: 'before', error: { kind: 'processFailed' } });
    expect(stage.agent.list()).toEqual([]);
    expect(stage.story.at(-1)).toBe('end -1 failed');
  });

  test('for a program that reads no more is refused, and the program runs on', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    process.writeResult = 'stdinClosed';
    const call = await stage.write({ session_id: id, chars: 'x' });
    await stage.clock.advance(250);
    expect(call.error).toMatchObject({ kind: 'stdinClosed', sessionId: id });
    expect(stage.agent.list()).toHaveLength(1);
  });

  test.each<[ClientErrorKind, boolean]>([
    ['disconnected', true],
    ['closed', true],
    ['protocol', true],
    ['brokenPipe', false],
    ['timeout', false],
    ['overloaded', false],
    ['server', false],
  ])('a write that fails because of %s loses the program: %s', async (kind, lost) => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    process.output('before', 'pty');
    process.writeResult = new ClientError(kind, 'no luck');
    const call = await stage.write({ session_id: id, chars: 'x' });
    expect(call.error?.message).toContain('no luck');
    if (lost) {
      expect(call).toMatchObject({ text: 'before', error: { kind: 'processFailed', sessionId: null } });
      expect(process.calls).toEqual(['write "x"', 'terminate']);
      expect(stage.agent.list()).toEqual([]);
    } else {
      expect(call.error).toMatchObject({ kind: 'writeFailed', sessionId: id });
      expect(process.calls).toEqual(['write "x"']);
      expect(stage.agent.list()).toHaveLength(1);
    }
  });

  test.each([true, false])(
    'that is not answered is not waited for for ever, on a terminal: %s',
    async (tty) => {
      const stage = new Stage();
      const { id, process } = await stage.running({ tty });
      process.writeResult = new ClientError('timeout', 'it took too long');
      process.signalResult = process.writeResult;
      const call = await stage.write({ session_id: id, chars: '\u0003' });
      expect(process.lastOptions.timeoutMs).toBe(EXECUTOR_TIMEOUT_MS);
      expect(call.error).toMatchObject({ kind: 'writeFailed', sessionId: id });
    },
  );

  test('an interrupt that cannot be sent fails alone', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    process.signalResult = new ClientError('server', 'not now');
    const call = await stage.write({ session_id: id, chars: '\u0003' });
    expect(call.error).toMatchObject({ kind: 'writeFailed', message: 'not now', sessionId: id });
  });
});

describe('several calls on one session', () => {
  test('come one after the other', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running({ tty: true });
    const first = await stage.write({ session_id: id, chars: '1' });
    const second = await stage.write({ session_id: id, chars: '2' });
    expect(process.calls).toEqual(['write "1"']);
    process.output('one', 'pty');
    await stage.clock.advance(350);
    expect([first.text, second.output]).toEqual(['one', null]);
    expect(process.calls).toEqual(['write "1"', 'write "2"']);
    process.output('two', 'pty');
    await stage.clock.advance(350);
    expect(second.text).toBe('two');
  });

  test('the end is reported to one of them', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    const first = await stage.write({ session_id: id });
    const second = await stage.write({ session_id: id });
    process.end(0);
    await settled();
    expect(first.output).toMatchObject({ exitCode: 0 });
    expect(second.error).toMatchObject({ kind: 'unknownSession' });
    expect(stage.story.filter((event) => event.startsWith('end'))).toEqual(['end 0 completed']);
  });

  test('wait behind the first look, which they may learn of by its event', async () => {
    const stage = new Stage();
    const first = await stage.exec({ yield_time_ms: 1_000 });
    const look = await stage.write({ session_id: 1000 });
    stage.backend.last.output('for the first');
    await stage.clock.advance(1_000);
    expect(first.text).toBe('for the first');
    await stage.clock.advance(5_000);
    expect(look).toMatchObject({ text: '', output: { sessionId: 1000 } });
  });

  test('an aborted one leaves the line', async () => {
    const stage = new Stage();
    const { id } = await stage.running();
    const abort = new AbortController();
    const first = await stage.write({ session_id: id });
    const second = await stage.write({ session_id: id }, { signal: abort.signal });
    const third = await stage.write({ session_id: id });
    abort.abort();
    await settled();
    expect(second.error).toMatchObject({ kind: 'aborted', sessionId: id });
    await stage.clock.advance(10_000);
    expect([first.output, third.output]).toEqual([expect.anything(), expect.anything()]);
  });

  test('have a bound', async () => {
    const stage = new Stage();
    const { id, process } = await stage.running();
    const calls = [];
    for (let count = 0; count <= MAX_WAITING_CALLS; count++)
      calls.push(await stage.write({ session_id: id }));
    const refused = await stage.write({ session_id: id });
    expect(refused.error).toMatchObject({ kind: 'overloaded' });
    process.end(0);
    await settled();
    expect(calls.every(({ output, error }) => output !== null || error !== null)).toBe(true);
  });
});
