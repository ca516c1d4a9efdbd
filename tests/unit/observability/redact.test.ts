import { expect, test } from 'vitest';
import { redactArguments, redactText } from '../../../src/observability/redact.ts';

const MAX = 1_000;

test.each([
  ['API_KEY=hunter2 make', 'API_KEY=*** make'],
  ['export GITHUB_TOKEN="a b c"; run', 'export GITHUB_TOKEN=***; run'],
  ["DB_PASSWORD='x y' app", 'DB_PASSWORD=*** app'],
  ['mysql --password hunter2 -h db', 'mysql --password *** -h db'],
  ['tool --client-secret=hunter2 go', 'tool --client-secret=*** go'],
  ['{"password": "hunter2", "user": "joe"}', '{"password": ***, "user": "joe"}'],
  ["curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: ***' x"],
  ['Cookie: session=abc; other=def', 'Cookie: ***'],
  ['X-Api-Key: abc', 'X-Api-Key: ***'],
  ['sent Bearer abcdefgh1234 twice', 'sent Bearer *** twice'],
  ['git clone https://joe:hunter2@example.com/r.git', 'git clone https://***@example.com/r.git'],
  ['postgres://u:p@db/x', 'postgres://***@db/x'],
  ['curl -u joe:hunter2 https://x', 'curl -u *** https://x'],
  ['use ghp_abcdefghijklmnop1234 here', 'use *** here'],
  ['sk-proj-abcdefghijkl and AKIAABCDEFGHIJKLMNOP', '*** and ***'],
  ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc', '***'],
  ['id-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc. next', 'id-***. next'],
  ['a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b', 'a *** b'],
  ['a -----BEGIN PGP PRIVATE KEY BLOCK-----\nlQO\n-----END PGP PRIVATE KEY BLOCK----- b', 'a *** b'],
  ['{"password":"hun\\"ter2secret","user":"me"}', '{"password":***,"user":"me"}'],
  ['{"password"=>"hunter2", :api_key=>\'x\', token := abc}', '{"password"=>***, :api_key=>***, token := ***'],
  [
    '"{\\"password\\": \\"hunter 2\\", \\"user\\":\\"me\\"}"',
    '"{\\"password\\": ***", \\"user\\":\\"me\\"}"',
  ],
])('%s', (text, expected) => {
  expect(redactText(text, MAX)).toBe(expected);
});

test.each([
  'make test --author=joe -j 4',
  'grep -rn "token" src',
  'https://example.com/path?q=1 mail@example.com',
  'the keyboard is broken: see ticket 12',
  'npm run build && node dist/index.js --user-agent x',
])('keeps %s unchanged', (text) => {
  expect(redactText(text, MAX)).toBe(text);
});

test('hides the argument after a flag that names a secret, but not another flag', () => {
  expect(
    redactArguments(['tool', '--token', 'abc', '--secret', '--verbose', 'x', '-u', 'joe:pw'], MAX),
  ).toEqual(['tool', '--token', '***', '--secret', '--verbose', 'x', '-u', '***']);
});

test('truncates long text with its length, after hiding a secret at the cut', () => {
  const text = `${'x'.repeat(95)} ghp_abcdefghijklmnop1234 ${'y'.repeat(5_000)}`;
  const redacted = redactText(text, 100);
  expect(redacted).toMatch(/^x{95} \*\*\* … \(5121 characters\)$/);
});

test('handles a hostile text quickly', () => {
  const hostile = [
    'token'.repeat(50_000),
    'eyJ-'.repeat(50_000),
    `${'a'.repeat(100_000)}=`,
    '"'.repeat(100_000),
    '://'.repeat(50_000),
    'token\\\\\\"'.repeat(30_000),
    'token=>\\"'.repeat(30_000),
  ];
  for (const text of hostile) {
    for (let round = 0; round < 50; round++) redactText(text, 8_192);
  }
});
