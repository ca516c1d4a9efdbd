import { expect, test } from 'vitest';
import { LogTail } from '../../../src/cli/programs/log-tail.ts';
import type { LostEvent, OutputStream } from '../../../src/client/backend.ts';

const output = (seq: number, stream: OutputStream, text: string) => ({
  ...{ type: 'output' as const, seq, stream },
  bytes: Buffer.from(text),
});

function lost(fromSeq: number, toSeq: number, streamBytes: LostEvent['streamBytes'] = null): LostEvent {
  return { type: 'lost', fromSeq, toSeq, bytes: null, streamBytes };
}

/** The lines that are kept, as `stream: text`, and the gaps. */
function lastLines(count: number, events: readonly (ReturnType<typeof output> | LostEvent)[]): string[] {
  const tail = new LogTail(count);
  for (const event of events) event.type === 'lost' ? tail.lost(event) : tail.output(event);
  return [...tail.take()].map((event) =>
    event.type === 'lost'
      ? `lost ${event.fromSeq}-${event.toSeq}`
      : `${event.stream}: ${Buffer.from(event.bytes).toString()}`,
  );
}

test('keeps the last lines, with the one that has not ended', () => {
  const events = [output(1, 'stdout', 'a\nb\nc'), output(2, 'stdout', 'd\ne')];
  expect(lastLines(2, events)).toEqual(['stdout: cd\n', 'stdout: e']);
  expect(lastLines(9, events)).toEqual(['stdout: a\n', 'stdout: b\n', 'stdout: cd\n', 'stdout: e']);
  expect(lastLines(0, events)).toEqual([]);
});

test('lines of two streams are not mixed', () => {
  const events = [output(1, 'stdout', 'o1 '), output(2, 'stderr', 'e1\n'), output(3, 'stdout', 'end\n')];
  expect(lastLines(2, events)).toEqual(['stderr: e1\n', 'stdout: o1 end\n']);
});

test('keeps a limited number of lines in memory', () => {
  const events = Array.from({ length: 10_000 }, (_, index) => output(index + 1, 'stdout', `${index}\n`));
  expect(lastLines(1, events)).toEqual(['stdout: 9999\n']);
});

test('a gap before the wanted lines is not reported', () => {
  const events = [lost(1, 5), output(6, 'stdout', 'cut\nwhole\n')];
  expect(lastLines(1, events)).toEqual(['stdout: whole\n']);
});

test('a gap is reported when it cuts the first wanted line, or when there are fewer lines than wanted', () => {
  const events = [lost(1, 5), output(6, 'stdout', 'cut\nwhole\n')];
  expect(lastLines(2, events)).toEqual(['lost 1-5', 'stdout: cut\n', 'stdout: whole\n']);
  expect(lastLines(3, events)).toEqual(['lost 1-5', 'stdout: cut\n', 'stdout: whole\n']);
});

test('a gap between wanted lines is reported in its place, and ends the line before it', () => {
  const events = [output(1, 'stdout', 'a\nbegin'), lost(2, 3), output(4, 'stdout', 'end\n')];
  expect(lastLines(2, events)).toEqual(['stdout: begin', 'lost 2-3', 'stdout: end\n']);
});

test('a gap of one stream does not cut a line of another', () => {
  const events = [
    ...[output(1, 'stderr', 'e\n'), output(2, 'stdout', 'be')],
    lost(3, 3, { stdout: 0, stderr: 10, pty: 0 }),
    output(4, 'stdout', 'fore\n'),
  ];
  expect(lastLines(1, events)).toEqual(['lost 3-3', 'stdout: before\n']);
});

test('a gap at the end is reported', () => {
  expect(lastLines(1, [output(1, 'stdout', 'a\nb\n'), lost(2, 9)])).toEqual(['stdout: b\n', 'lost 2-9']);
});

test('takes as many lines as a server retains', () => {
  const lines = lastLines(300_000, [output(1, 'stdout', '\n'.repeat(400_000))]);
  expect(lines.length).toBe(300_000);
});
