import { describe, expect, test } from 'vitest';
import { CastReader } from '../../../src/recording/asciicast.ts';

function reader(header: object): CastReader {
  const opened = new CastReader();
  opened.line(JSON.stringify(header));
  return opened;
}

describe.each([
  { version: 3, term: { cols: 80, rows: 24 } },
  { version: 2, width: 80, height: 24 },
])('a recording in the format v$version', (header) => {
  test('leaves out events of unknown kinds', () => {
    const opened = reader(header);
    expect(opened.line('[1, "o", "hi"]')).toEqual({ atUs: 1e6, code: 'o', text: 'hi' });
    for (const code of ['z', 'constructor', '\x1b]0;title\x07"']) {
      expect(opened.line(JSON.stringify([0, code, 'hi']))).toBeNull();
    }
  });

  test.each(['-1', '1e305', '1e300'])('refuses the time %s', (time) => {
    expect(() => reader(header).line(`[${time}, "o", "hi"]`)).toThrow('the time is negative or too large');
  });

  test('takes null in the header for nothing', () => {
    const sparse = { ...header, timestamp: null, title: null, env: { SHELL: null, LANG: 'C' } };
    const { title, env, timestamp } = reader(sparse).header!;
    expect({ title, env, timestamp }).toEqual({ title: undefined, env: { LANG: 'C' }, timestamp: 0 });
  });
});
