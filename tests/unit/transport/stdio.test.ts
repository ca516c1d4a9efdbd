import { PassThrough, Writable } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import {
  CLOSE_TIMEOUT_MS,
  NEW_PEER_MESSAGE_BYTES,
  SEND_WINDOW_BYTES,
} from '../../../src/transport/limits.ts';
import { StdioTransport } from '../../../src/transport/stdio.ts';
import { bufferedText } from '../../support/buffered-text.ts';
import { RecordedEvents } from './recorded-events.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** An output whose writes are finished by the test, one at a time. */
class SlowOutput extends Writable {
  readonly written: Buffer[] = [];
  #finish: (() => void) | null = null;

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.written.push(chunk);
    this.#finish = done;
  }

  /** Completes the current write; the next one starts immediately. */
  async finishOne(): Promise<void> {
    this.#finish?.();
    await new Promise(process.nextTick);
  }
}

function connect(options: { maxMessageBytes?: number; output?: Writable } = {}) {
  const input = new PassThrough();
  const output = options.output ?? new PassThrough();
  const transport = new StdioTransport(input, output, { maxMessageBytes: options.maxMessageBytes ?? 1_000 });
  return { input, output, transport, events: RecordedEvents.of(transport) };
}

test.each([
  ['line feeds', '{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']],
  ['carriage returns', '{"a":1}\r\n{"b":2}\r\n', ['{"a":1}', '{"b":2}']],
  ['blank lines', '\n  \n\t\r\n{"a":1}\n\n', ['{"a":1}']],
  ['no final line end', '{"a":1}\n{"b":2}', ['{"a":1}', '{"b":2}']],
  ['what is no JSON', 'hello\n', ['hello']],
  ['multi-byte characters', '"é😀"\n', ['"é😀"']],
])('input with %s', async (_name, text, messages) => {
  const { input, events } = connect();
  input.end(text);
  await events.until(() => events.count('ended') === 1);
  expect(events.messages).toEqual(messages);
  expect(events.log.at(-1)).toBe('ended');
});

test('joins a character that is split between two reads', async () => {
  const { input, events } = connect();
  const bytes = Buffer.from('"😀"\n');
  for (const byte of bytes) input.write(Buffer.of(byte));
  await events.untilMessages(1);
  expect(events.messages).toEqual(['"😀"']);
});

test('a line that is not UTF-8 ends the connection silently, and later lines are not read', async () => {
  const { input, events } = connect();
  input.write(Buffer.concat([Buffer.from('good\n'), Buffer.of(0xff, 0x0a), Buffer.from('more\n')]));
  expect(await events.untilClosed()).toMatchObject({ code: 1002 });
  expect(events.log).toEqual(['message good', 'closed']);
});

test.each([
  ['in one piece', ['good\n', 'x'.repeat(11)]],
  ['in pieces', ['good\n', 'xxxxxx', 'xxxxxx']],
])('a line that is too long ends the connection: %s', async (_name, pieces) => {
  const { input, events } = connect({ maxMessageBytes: 10 });
  for (const piece of pieces) input.write(piece);
  expect(await events.untilClosed()).toEqual({ code: 1009, reason: 'a line is longer than 10 bytes' });
  expect(events.log).toEqual(['message good', 'closed']);
});

test('a line before initialize must be small, on the end of the server', async () => {
  const input = new PassThrough();
  const transport = new StdioTransport(input, new PassThrough(), {
    maxMessageBytes: 1_000_000,
    isServer: true,
  });
  const events = RecordedEvents.of(transport);
  input.write(`${'a'.repeat(NEW_PEER_MESSAGE_BYTES)}\n`);
  await events.untilMessages(1);
  transport.peerInitialized();
  input.write(`${'b'.repeat(NEW_PEER_MESSAGE_BYTES + 1)}\n`);
  await events.untilMessages(2);
  const other = new StdioTransport(input, new PassThrough(), { maxMessageBytes: 1_000_000, isServer: true });
  const otherEvents = RecordedEvents.of(other);
  input.write('c'.repeat(NEW_PEER_MESSAGE_BYTES + 1));
  expect(await otherEvents.untilClosed()).toEqual({
    code: 1009,
    reason: `a line is longer than ${NEW_PEER_MESSAGE_BYTES} bytes`,
  });
});

test('an error thrown by the receiver is not reported as a long line', () => {
  const input = new PassThrough();
  const transport = new StdioTransport(input, new PassThrough(), { maxMessageBytes: 10 });
  const closed = vi.fn();
  const failing = () => {
    throw new Error('a defect');
  };
  transport.open({ message: failing, closed, undecodable: vi.fn(), drained: vi.fn(), ended: vi.fn() });
  expect(() => input.emit('data', Buffer.from('x\n'))).toThrow('a defect');
  expect(closed).not.toHaveBeenCalled();
});

test('writes each message as one line', async () => {
  const { output, transport } = connect();
  expect(transport.send('{"a":1}')).toBe(true);
  expect(transport.send(Buffer.from('{"b":"é"}'))).toBe(true);
  expect(bufferedText(output as PassThrough)).toBe('{"a":1}\n{"b":"é"}\n');
});

test('receives nothing while paused, and continues where it stopped', async () => {
  const { input, transport, events } = connect();
  transport.setReceiving(false);
  input.write('one\n');
  await new Promise(setImmediate);
  expect(events.log).toEqual([]);
  transport.setReceiving(true);
  await events.untilMessages(1);
});

test('a slow output asks to wait until half of the window is free', async () => {
  const output = new SlowOutput({ highWaterMark: 1 });
  const { transport, events } = connect({ output });
  const part = 'x'.repeat(SEND_WINDOW_BYTES / 4 - 1);
  const accepted = Array.from({ length: 5 }, () => transport.send(part));
  expect(accepted).toEqual([true, true, true, true, false]);
  await output.finishOne();
  await output.finishOne();
  // Below the window again, but the caller still waits for `drained`.
  expect(transport.send('control')).toBe(false);
  await output.finishOne();
  expect(events.log).toEqual([]);
  await output.finishOne();
  expect(events.log).toEqual(['drained']);
  expect(transport.send('control')).toBe(true);
  for (let writes = 0; writes < 3; writes++) await output.finishOne();
  expect(events.log).toEqual(['drained']);
});

test('a close waits until everything is sent', async () => {
  const output = new SlowOutput();
  const { transport, events } = connect({ output });
  transport.send('last output');
  transport.close({ code: 1000, reason: 'done' });
  transport.close({ code: 1001, reason: 'again' });
  expect(events.log).toEqual([]);
  await output.finishOne();
  expect(events.closeReason).toEqual({ code: 1000, reason: 'done' });
  expect(transport.send('dropped')).toBe(true);
  await output.finishOne();
  expect(Buffer.concat(output.written).toString()).toBe('last output\n');
  expect(events.log).toEqual(['closed']);
});

test('a close does not wait without a limit for an output that is not read', () => {
  vi.useFakeTimers();
  const { transport, events } = connect({ output: new SlowOutput() });
  transport.send('unread');
  transport.close({ code: 1000, reason: 'done' });
  vi.advanceTimersByTime(CLOSE_TIMEOUT_MS - 1);
  expect(events.log).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(events.log).toEqual(['closed']);
});

test.each([
  ['behind the end of the input', true, 'closed after the last message'],
  ['while the peer may still send', false, 'closed after its time'],
])('a close waits for an output that is read slowly: %s', async (_when, inputEnds, outcome) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const output = new SlowOutput();
  const { input, transport, events } = connect({ output });
  if (inputEnds) {
    input.end();
    await events.until(() => events.count('ended') === 1);
  }
  for (const message of ['one', 'two', 'three']) transport.send(message);
  transport.close({ code: 1000, reason: 'done' });
  for (let written = 0; written < 2; written++) {
    vi.advanceTimersByTime(CLOSE_TIMEOUT_MS - 1);
    await output.finishOne();
  }
  expect(events.count('closed')).toBe(outcome === 'closed after its time' ? 1 : 0);
  await output.finishOne();
  expect(events.count('closed')).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});

test('reads no input after a close', async () => {
  const { input, transport, events } = connect();
  transport.close({ code: 1000, reason: 'done' });
  input.write('late\n');
  input.end();
  await new Promise(setImmediate);
  expect(events.log).toEqual(['closed']);
});

test.each([
  ['a broken output', ({ output }: ReturnType<typeof connect>) => output.destroy(new Error('EPIPE'))],
  ['a broken input', ({ input }: ReturnType<typeof connect>) => input.destroy(new Error('EIO'))],
  ['an input that is closed before its end', ({ input }: ReturnType<typeof connect>) => input.destroy()],
])('%s ends the transport abnormally, once', async (_name, breakIt) => {
  const connection = connect();
  breakIt(connection);
  expect(await connection.events.untilClosed()).toMatchObject({ code: 1006 });
  connection.transport.close({ code: 1000, reason: 'later' });
  await new Promise(setImmediate);
  expect(connection.events.log).toEqual(['closed']);
});

test('the end of the input leaves the output open', async () => {
  const { input, output, transport, events } = connect();
  input.end();
  await events.until(() => events.count('ended') === 1);
  await new Promise(setImmediate);
  transport.send('an answer');
  expect(bufferedText(output as PassThrough)).toBe('an answer\n');
  expect(events.log).toEqual(['ended']);
});
