import fc from 'fast-check';
import { expect, test } from 'vitest';
import { redactText } from '../../../src/observability/redact.ts';
import { type MaskedText, SecretMask } from '../../../src/recording/secret-mask.ts';

/** Passes chunks through a mask. `idle` decides about everything that waits after each chunk. */
function masked(chunks: readonly string[], idle = false): string {
  const mask = new SecretMask();
  const pieces: MaskedText[] = [];
  for (const chunk of chunks) {
    pieces.push(mask.add(chunk));
    if (idle) mask.flush();
  }
  mask.flush();
  expect(pieces.map(({ waiting }) => waiting)).toEqual(pieces.map(() => 0));
  return pieces.map(({ ready }) => ready).join('');
}

/** Cuts a text at these places. */
function cut(text: string, places: readonly number[]): string[] {
  const ends = [...new Set(places.map((place) => place % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends].map((from, index) => text.slice(from, ends[index] ?? text.length));
}

const SECRETS = [
  'API_KEY=hunter2hunter2',
  'export GITHUB_TOKEN="hunter2 hunter2"',
  'Authorization: Bearer hunter2hunter2',
  'https://joe:hunter2@example.com/r.git',
  'ghp_hunter2hunter2hunter2',
  'curl -u joe:hunter2 x',
  '-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2hunter2\n-----END RSA PRIVATE KEY-----',
];
const filler = fc.constantFrom('make\n', 'ok ', 'größe 😀\r\n', '\x1b[31mred\x1b[0m ', '\n', 'a b c\n');
const texts = fc
  .array(
    fc.oneof(
      filler,
      fc.constantFrom(...SECRETS).map((secret) => `${secret}\n`),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));
const places = fc.array(fc.nat({ max: 4_000 }), { maxLength: 30 });

test('masks the same as for the whole text, wherever it is cut', () => {
  fc.assert(
    fc.property(texts, places, (text, cuts) => {
      expect(masked(cut(text, cuts))).toBe(redactText(text, text.length));
    }),
  );
});

test('masks the rest of a secret whose beginning was shown before', () => {
  const typed = [...'export GITHUB_TOKEN=hunter2hunter2; make\n'];
  expect(masked(typed, true)).toBe('export GITHUB_TOKEN=***; make\n');
  expect(masked(['password="two', ' words"', ' then\n'], true)).toBe('password=*** then\n');
});

test('masks a secret that is coloured, and keeps the colours', () => {
  const grep = '\x1b[35m.env\x1b[m:\x1b[01;31m\x1b[KTOKEN\x1b[m\x1b[K=hun\x1b[32mter2\x1b[0m ok\n';
  const shown = '\x1b[35m.env\x1b[m:\x1b[01;31m\x1b[KTOKEN\x1b[m\x1b[K=***\x1b[32m\x1b[0m ok\n';
  expect(masked([grep])).toBe(shown);
  for (let place = 1; place < grep.length; place++) expect(masked(cut(grep, [place]))).toBe(shown);
  expect(masked(['ghp_hunter\x1b[1m2hunter2hunter2\n'])).toBe('***\x1b[1m\n');
  expect(masked(['\x1b]0;https://joe:hunter2@host\x07'])).toBe('\x1b]0;https://***@host\x07');
});

test('masks a secret in a line that is too long to wait for its end', () => {
  const line = `${'x'.repeat(20_000)} ghp_hunter2hunter2hunter2 ${'y'.repeat(20_000)}`;
  for (const size of [1, 7, 4_095, 30_000]) {
    const chunks = line.match(new RegExp(`.{1,${size}}`, 'g'))!;
    expect(masked(chunks)).toBe(`${'x'.repeat(20_000)} *** ${'y'.repeat(20_000)}`);
  }
});

test('masks a private key of many lines that arrive one by one', () => {
  const lines = Array.from({ length: 200 }, () => `${'A'.repeat(64)}\n`);
  const key = ['-----BEGIN PRIVATE KEY-----\n', ...lines, '-----END PRIVATE KEY-----\n', 'done\n'];
  expect(masked(key)).toBe('***\ndone\n');
});

test('handles hostile text quickly', () => {
  const texts = [
    'token="',
    '-----BEGIN PRIVATE KEY-----',
    'x-a-key: ',
    ' -u  ',
    '://',
    'secret: \n',
    'eyJaaaaaaaaa.',
  ];
  for (const text of texts) {
    const chunk = text.repeat(Math.ceil(65_536 / text.length));
    const mask = new SecretMask();
    for (let round = 0; round < 20; round++) mask.add(chunk);
    mask.flush();
  }
});

test.each([
  [
    '\x1b]8;;http://x\x1b\\ghp_hunter2hunter2hunter2\x1b]8;;\x1b\\',
    '\x1b]8;;http://x\x1b\\***\x1b]8;;\x1b\\',
  ],
  ['password=hun\x1b]0;title\x07ter2hunter2 end', 'password=***\x1b]0;title\x07 end'],
  ['password=hun\u009b0mter2hunter2 end', 'password=***\u009b0m end'],
  ['password=hun\x1bP1$r0m\x1b\\ter2hunter2 end', 'password=***\x1bP1$r0m\x1b\\ end'],
  ['\x1b]0;password=hunter2hunter2\x07shown', '\x1b]0;password=***\x07shown'],
  ['\x1b]0;ghp_hunter2hunter2hunter2\x1b\\shown', '\x1b]0;***\x1b\\shown'],
])('keeps control strings around and within secrets: %j', (text, shown) => {
  expect(masked([text])).toBe(shown);
  expect(masked([...text, '\n'])).toBe(`${shown}\n`);
});
