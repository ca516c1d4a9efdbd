import { expect, test } from 'vitest';
import { createLogger, type LogLevel } from '../../../src/observability/log.ts';

function logged(level: LogLevel, write: (logger: ReturnType<typeof createLogger>) => void): string[] {
  const lines: string[] = [];
  write(createLogger(level, (line) => lines.push(line)));
  return lines;
}

test.each<[LogLevel, string[]]>([
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['warn', ['warn', 'error']],
  ['error', ['error']],
])('level %s writes %j', (level, written) => {
  const lines = logged(level, (log) => {
    log.debug('m');
    log.info('m');
    log.warn('m');
    log.error('m');
  });
  expect(lines.map((line) => JSON.parse(line).level)).toEqual(written);
});

test('writes a record as one line of JSON with its fields', () => {
  const [line] = logged('info', (log) => log.info('hello', { count: 1, ok: true, none: null }));
  expect(line).toMatch(
    /^\{"time":"\d{4}-[^"]+Z","level":"info","message":"hello","count":1,"ok":true,"none":null\}\n$/,
  );
});

test.each([
  ['a line end', 'a\n{"level":"error"}\r'],
  ['a terminal escape', '\u001b[2J\u009b31m'],
  ['other line ends', '\u0085\u2028\u2029\u007f'],
  ['quotes', '","level":"error'],
])('escapes %s in a value so that it cannot forge a line', (_name, text) => {
  const [line] = logged('info', (log) => log.info(text, { field: text }));
  expect(line?.slice(0, -1)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
  expect(line?.endsWith('\n')).toBe(true);
  expect(JSON.parse(line!)).toMatchObject({ level: 'info', message: text, field: text });
});

test('escapes bidi and invisible characters', () => {
  const [line] = logged('info', (log) => log.info('a\u202eb', { field: '\u2066x\ufeff' }));
  expect(line).toContain('a\\u202eb');
  expect(line).toContain('\\u2066x\\ufeff');
  const invisible = '\u200b\u00ad\u{e0041}';
  const [other] = logged('info', (log) => log.info(invisible));
  expect(other).toContain('\\u200b\\u00ad\\udb40\\udc41');
  expect(JSON.parse(other!).message).toBe(invisible);
});

test('hides what looks like a secret and truncates long texts', () => {
  const [line] = logged('info', (log) =>
    log.info('failed: token=hunter2', { url: 'https://joe:hunter2@x/', long: 'y'.repeat(100_000) }),
  );
  expect(line).not.toContain('hunter2');
  expect(JSON.parse(line!).long).toMatch(/^y{8192}… \(100000 characters\)$/);
});
