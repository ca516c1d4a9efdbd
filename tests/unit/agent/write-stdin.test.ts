import { describe, expect, test } from 'vitest';
import { EXECUTOR_TIMEOUT_MS, MAX_WAITING_CALLS } from '../../../src/agent/limits.ts';
import { ClientError, type ClientErrorKind } from '../../../src/client/errors.ts';
import { AgentFixture } from './agent-fixture.ts';
import { settled } from './manual-clock.ts';

describe('a poll without input', () => {
  test.each([
    [undefined, undefined, 5_000],
    [1, undefined, 5_000],
    [20_000, undefined, 20_000],
    [999_999, undefined, 300_000],
    [20_000, 9_000, 9_000],
    [20_000, 10, 5_000],
  ])('of %s ms with a maximum of %s takes %s ms', async (yield_time_ms, maxPollMs, ms) => {
    const fixture = new AgentFixture(maxPollMs === undefined ? {} : { maxPollMs });
    const { id, process } = await fixture.running();
    const look = await fixture.write({
      session_id: id,
      ...(yield_time_ms === undefined ? {} : { yield_time_ms }),
    });
    await fixture.clock.advance(ms - 1);
    expect(look.output).toBeNull();
    await fixture.clock.advance(1);
    expect(look.output).toMatchObject({ sessionId: id, exitCode: null });
    expect(look.output?.text).toContain(`Wall time: ${(ms / 1000).toFixed(4)} seconds\n`);
    expect(process.calls).toEqual([]);
  });

  test('returns when the program ends, and removes the session', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    const look = await fixture.write({ session_id: id });
    process.output('bye').end(4);
    await settled();
    expect(look).toMatchObject({ text: 'bye', output: { exitCode: 4, sessionId: null } });
    const again = await fixture.write({ session_id: id });
    expect(again.error).toMatchObject({ kind: 'unknownSession' });
    expect(again.error?.text).toBe(
      `write_stdin failed: there is no session ${id}; it never existed, or its end has been reported`,
    );
    expect(process.calls).toEqual([]);
  });

  test('returns immediately when the program has ended', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    process.output('bye').end(0);
    await settled();
    expect(await fixture.write({ session_id: id, chars: 'too late' })).toMatchObject({
      text: 'bye',
      output: { exitCode: 0, sessionId: null },
    });
    expect(process.calls).toEqual([]);
  });

  test('that is aborted leaves the output to the next call', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    const abort = new AbortController();
    const look = await fixture.write({ session_id: id }, { signal: abort.signal });
    process.output('kept');
    await settled();
    abort.abort();
    await settled();
    expect(look.error).toMatchObject({ kind: 'aborted', sessionId: id });
    process.end(0);
    expect(await fixture.write({ session_id: id })).toMatchObject({ text: 'kept' });
  });
});

describe('input', () => {
  test.each([
    [undefined, 350],
    [10, 350],
    [1_000, 1_100],
    [99_000, 30_100],
  ])('for a terminal is written, then the call waits (%s ms requested): %s ms', async (yield_time_ms, ms) => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    const call = await fixture.write({
      session_id: id,
      chars: 'bob\n',
      ...(yield_time_ms === undefined ? {} : { yield_time_ms }),
    });
    expect(process.calls).toEqual(['write "bob\\n"']);
    process.output('hello bob', 'pty');
    await fixture.clock.advance(ms - 1);
    expect(call.output).toBeNull();
    await fixture.clock.advance(1);
    expect(call).toMatchObject({ text: 'hello bob', output: { sessionId: id } });
  });

  test('an interrupt is a byte on a terminal and a signal elsewhere', async () => {
    const fixture = new AgentFixture();
    const terminal = await fixture.running({ tty: true });
    await fixture.write({ session_id: terminal.id, chars: '\u0003' });
    expect(terminal.process.calls).toEqual(['write "\\u0003"']);
    const plain = await fixture.running();
    await fixture.write({ session_id: plain.id, chars: '\u0003' });
    expect(plain.process.calls).toEqual(['signal interrupt']);
  });

  test('other than an interrupt is rejected without a terminal', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    const call = await fixture.write({ session_id: id, chars: 'x\u0003' });
    expect(call.error).toMatchObject({ kind: 'stdinClosed', sessionId: id, message: /tty=true/ });
    expect(process.calls).toEqual([]);
    expect(fixture.agent.list()).toHaveLength(1);
  });

  test('for a program that is still starting can be retried', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    process.writeFailure = new ClientError('server', 'it is still starting', { retryable: true });
    const call = await fixture.write({ session_id: id, chars: 'x' });
    expect(call.error).toMatchObject({ kind: 'writeFailed', sessionId: id });
    process.writeFailure = null;
    const again = await fixture.write({ session_id: id, chars: 'x' });
    await fixture.clock.advance(350);
    expect(again.output).toMatchObject({ sessionId: id });
  });

  test.each(['notFound', 'stdinClosed'] as const)(
    'that finds the program gone (%s) reports its end',
    async (kind) => {
      const fixture = new AgentFixture();
      const { id, process } = await fixture.running({ tty: true });
      process.writeFailure = new ClientError(kind, 'no luck');
      const call = await fixture.write({ session_id: id, chars: 'x' });
      await fixture.clock.advance(100);
      process.output('last words', 'pty').end(9);
      await settled();
      expect(call).toMatchObject({ text: 'last words', output: { exitCode: 9, sessionId: null } });
      expect(fixture.story).not.toContain('typed "x"');
    },
  );

  test('for a program that the executor no longer knows fails with the output so far', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    process.output('before', 'pty');
    process.writeFailure = new ClientError('notFound', 'no luck');
    const call = await fixture.write({ session_id: id, chars: 'x' });
    await fixture.clock.advance(250);
    expect(call).toMatchObject({ text: 'before', error: { kind: 'processFailed' } });
    expect(fixture.agent.list()).toEqual([]);
    expect(fixture.story.at(-1)).toBe('end -1 failed');
  });

  test('for a program that closed its stdin is rejected, and the program keeps running', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    process.writeFailure = new ClientError('stdinClosed', 'no luck');
    const call = await fixture.write({ session_id: id, chars: 'x' });
    await fixture.clock.advance(250);
    expect(call.error).toMatchObject({ kind: 'stdinClosed', sessionId: id });
    expect(fixture.agent.list()).toHaveLength(1);
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
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    process.output('before', 'pty');
    process.writeFailure = new ClientError(kind, 'no luck');
    const call = await fixture.write({ session_id: id, chars: 'x' });
    expect(call.error?.message).toContain('no luck');
    if (lost) {
      expect(call).toMatchObject({ text: 'before', error: { kind: 'processFailed', sessionId: null } });
      expect(process.calls).toEqual(['write "x"', 'terminate']);
      expect(fixture.agent.list()).toEqual([]);
    } else {
      expect(call.error).toMatchObject({ kind: 'writeFailed', sessionId: id });
      expect(process.calls).toEqual(['write "x"']);
      expect(fixture.agent.list()).toHaveLength(1);
    }
  });

  test.each([true, false])(
    'has a time limit when the executor does not answer, on a terminal: %s',
    async (tty) => {
      const fixture = new AgentFixture();
      const { id, process } = await fixture.running({ tty });
      process.writeFailure = new ClientError('timeout', 'it took too long');
      process.signalResult = process.writeFailure;
      const call = await fixture.write({ session_id: id, chars: '\u0003' });
      expect(process.lastOptions.timeoutMs).toBe(EXECUTOR_TIMEOUT_MS);
      expect(call.error).toMatchObject({ kind: 'writeFailed', sessionId: id });
    },
  );

  test('a failed interrupt does not lose the program', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    process.signalResult = new ClientError('server', 'not now');
    const call = await fixture.write({ session_id: id, chars: '\u0003' });
    expect(call.error).toMatchObject({ kind: 'writeFailed', message: 'not now', sessionId: id });
  });
});

describe('several calls on one session', () => {
  test('run one after the other', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running({ tty: true });
    const first = await fixture.write({ session_id: id, chars: '1' });
    const second = await fixture.write({ session_id: id, chars: '2' });
    expect(process.calls).toEqual(['write "1"']);
    process.output('one', 'pty');
    await fixture.clock.advance(350);
    expect([first.text, second.output]).toEqual(['one', null]);
    expect(process.calls).toEqual(['write "1"', 'write "2"']);
    process.output('two', 'pty');
    await fixture.clock.advance(350);
    expect(second.text).toBe('two');
  });

  test('return the end of the program once', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    const first = await fixture.write({ session_id: id });
    const second = await fixture.write({ session_id: id });
    process.end(0);
    await settled();
    expect(first.output).toMatchObject({ exitCode: 0 });
    expect(second.error).toMatchObject({ kind: 'unknownSession' });
    expect(fixture.story.filter((event) => event.startsWith('end'))).toEqual(['end 0 completed']);
  });

  test('wait for the first call of the session', async () => {
    const fixture = new AgentFixture();
    const first = await fixture.exec({ yield_time_ms: 1_000 });
    const look = await fixture.write({ session_id: 1000 });
    fixture.backend.last.output('for the first');
    await fixture.clock.advance(1_000);
    expect(first.text).toBe('for the first');
    await fixture.clock.advance(5_000);
    expect(look).toMatchObject({ text: '', output: { sessionId: 1000 } });
  });

  test('leave the queue when aborted', async () => {
    const fixture = new AgentFixture();
    const { id } = await fixture.running();
    const abort = new AbortController();
    const first = await fixture.write({ session_id: id });
    const second = await fixture.write({ session_id: id }, { signal: abort.signal });
    const third = await fixture.write({ session_id: id });
    abort.abort();
    await settled();
    expect(second.error).toMatchObject({ kind: 'aborted', sessionId: id });
    await fixture.clock.advance(10_000);
    expect([first.output, third.output]).toEqual([expect.anything(), expect.anything()]);
  });

  test('are limited in number', async () => {
    const fixture = new AgentFixture();
    const { id, process } = await fixture.running();
    const calls = [];
    for (let count = 0; count <= MAX_WAITING_CALLS; count++)
      calls.push(await fixture.write({ session_id: id }));
    const refused = await fixture.write({ session_id: id });
    expect(refused.error).toMatchObject({ kind: 'overloaded' });
    process.end(0);
    await settled();
    expect(calls.every(({ output, error }) => output !== null || error !== null)).toBe(true);
  });
});
