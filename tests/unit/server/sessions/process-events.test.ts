import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NOTIFICATIONS } from '../../../../src/protocol/registry.ts';
import { type Dialect, processNotifier } from '../../../../src/server/sessions/process-events.ts';
import { ANY_CHARACTER } from '../../../support/any-character.ts';

function createNotifier(dialect: Dialect, processId = 'p') {
  const sink = {
    attached: true,
    frames: [] as string[],
    sendBulk: (frame: Uint8Array) => {
      sink.frames.push(Buffer.from(frame).toString());
    },
  };
  return { sink, events: processNotifier(processId, dialect, sink) };
}

test('sends the output, exited and closed notifications of the reference in order', () => {
  const { sink, events } = createNotifier('process', 'fixed-name');
  events.output(1, 'stdout', Buffer.from('hi\n'));
  events.exited(2, 0, null, false);
  events.closed(3, null);
  expect(sink.frames).toEqual([
    '{"method":"process/output","params":{"processId":"fixed-name","seq":1,"stream":"stdout","chunk":"aGkK"}}',
    '{"method":"process/exited","params":{"processId":"fixed-name","seq":2,"exitCode":0,"sandboxDenied":false}}',
    '{"method":"process/closed","params":{"processId":"fixed-name","seq":3}}',
  ]);
});

test('reports in the exit whether the sandbox denied something', () => {
  const { sink, events } = createNotifier('process');
  events.exited(1, 2, null, true);
  expect(JSON.parse(sink.frames[0]!).params).toEqual({
    processId: 'p',
    seq: 1,
    exitCode: 2,
    sandboxDenied: true,
  });
});

test('sends the exit of a command after all its output, and no closed', () => {
  const { sink, events } = createNotifier('command');
  events.output(1, 'pty', Buffer.from('a'));
  events.exited(2, 7, null, false);
  events.output(3, 'stderr', Buffer.from('b'));
  events.closed(4, null);
  expect(sink.frames.map((frame) => JSON.parse(frame))).toEqual([
    { method: 'command/exec/outputDelta', params: { processId: 'p', stream: 'stdout', chunk: 'YQ==' } },
    { method: 'command/exec/outputDelta', params: { processId: 'p', stream: 'stderr', chunk: 'Yg==' } },
    { method: 'command/exec/exited', params: { processId: 'p', exitCode: 7 } },
  ]);
});

test('sends nothing while the session is detached', () => {
  for (const dialect of ['process', 'command'] as const) {
    const { sink, events } = createNotifier(dialect);
    sink.attached = false;
    events.output(1, 'stdout', Buffer.from('x'));
    events.exited(2, 0, null, false);
    events.closed(3, null);
    expect(sink.frames).toEqual([]);
  }
});

test('builds output frames that are valid JSON for any process id and bytes', () => {
  const name = fc.string({ unit: ANY_CHARACTER, maxLength: 20 });
  const bytes = fc.uint8Array({ maxLength: 50 });
  const stream = fc.constantFrom('stdout', 'stderr', 'pty' as const);
  fc.assert(
    fc.property(name, fc.integer({ min: 1 }), stream, bytes, (processId, seq, streamName, content) => {
      const { sink, events } = createNotifier('process', processId);
      events.output(seq, streamName, Buffer.from(content));
      const chunk = Buffer.from(content).toString('base64');
      const expected = { method: 'process/output', params: { processId, seq, stream: streamName, chunk } };
      expect(sink.frames).toEqual([JSON.stringify(expected)]);
      expect(
        NOTIFICATIONS['process/output'].params.safeParse(JSON.parse(sink.frames[0]!).params).success,
      ).toBe(true);
    }),
  );
});
