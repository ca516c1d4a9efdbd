import { describe, expect, test } from 'vitest';
import { MAX_PATTERN_LENGTH } from '../../../../../src/network/proxy/masking/limits.ts';
import { newBudget } from '../../../../../src/network/proxy/masking/patterns/automaton.ts';
import { CredentialPattern } from '../../../../../src/network/proxy/masking/patterns/credential-pattern.ts';

const KEY = 'acme_abcdefghijklmnopqrstuvwx';

describe('CredentialPattern', () => {
  test.each([
    ['acme_[a-z]{24}', [KEY], ['acme_', `${KEY}y`, `x${KEY}`]],
    ['^acme_[a-z]+$', [KEY, 'acme_a'], ['acme_', 'acme_A']],
    ['\\Aacme_\\w+\\z', [KEY, 'acme__9'], ['acme_-']],
    ['(?i)ACME_(?:[A-C]+|x)', ['acme_abc', 'AcMe_X'], ['acme_d']],
    ['(?i:a)b', ['ab', 'Ab'], ['aB']],
    ['a|bc|', ['a', 'bc'], ['b']],
    ['(?P<name>a)(?<other>b)(c)', ['abc'], ['ab']],
    ['[]x^-]+', [']', 'x^-'], ['y']],
    ['[^\\d\\s]{2}', ['ab'], ['a1', 'a ']],
    ['\\x41\\x{42}\\u{43}\\.\\-\\/', ['ABC.-/'], ['ABCx-/']],
    ['.', ['a'], ['\n']],
    ['(?s).', ['a', '\n'], ['']],
    ['a.?b{2,3}?c*', ['abb', 'axbbbcc'], ['ab', 'abbbbb']],
    ['\\bkey\\b', ['key'], ['keys']],
    ['a\\Bb', ['ab'], ['a b']],
    ['[\\w.-]{3}', ['a.-'], ['a+-']],
    ['x{0,2}y', ['y', 'xxy'], ['xxxy']],
  ])('%s matches as specified', (text, right, wrong) => {
    if (text.endsWith('|'))
      return expect(() => new CredentialPattern(text)).toThrow('matches the empty text');
    const pattern = new CredentialPattern(text);
    for (const one of right) expect([one, pattern.matches(one, newBudget())]).toEqual([one, true]);
    for (const one of wrong) expect([one, pattern.matches(one, newBudget())]).toEqual([one, false]);
  });

  test.each([
    ['(', 'a `(` has no `)`'],
    [')', 'a `)` has no `(`'],
    ['[a', 'a `[` has no `]`'],
    ['*a', 'repeats nothing'],
    ['a{', 'does not begin a repetition'],
    ['a{3,2}', 'less than its minimum'],
    ['a{1025}', 'more than 1024 times'],
    ['a{1,1025}', 'more than 1024 times'],
    ['(?:a{1000}){1000}', 'too large'],
    ['[z-a]', 'invalid range in `[]`'],
    ['[\\d-z]', 'invalid range in `[]`'],
    ['[[:alpha:]]', 'nested sets'],
    ['[a&&b]', 'nested sets'],
    ['(?=a)b', 'not supported'],
    ['(?<!a)b', 'not supported'],
    ['(a)\\1', '`\\1` is not supported'],
    ['\\pL', '`\\p` is not supported'],
    ['(?x)a', 'flag `x`'],
    ['a\\', 'not supported'],
    ['[a-z]*', 'matches the empty text'],
    ['^$', 'matches the empty text'],
    ['(?:(?:){1024}){1024}x', 'a repetition repeats nothing'],
    ['(?:^{1024}){1024}x', 'a repetition repeats nothing'],
    ['(?:a{0}){1024}x', 'a repetition repeats nothing'],
    [`a${'+'.repeat(5)}`, 'repeated too often'],
    [`${'('.repeat(33)}a${')'.repeat(33)}`, 'nested too deep'],
    ['a'.repeat(MAX_PATTERN_LENGTH + 1), 'longer than'],
  ])('rejects %s', (text, message) => {
    expect(() => new CredentialPattern(text)).toThrow(message);
  });
});

describe('findIn', () => {
  const find = (pattern: string, text: string) => [
    ...new CredentialPattern(pattern).findIn(text, newBudget()),
  ];

  test('finds separate credentials and ignores anchors', () => {
    expect(find('acme_[a-z]{24}', `x=${KEY};y=${KEY}`)).toEqual([KEY, KEY]);
    expect(find('^acme_[a-z]+$', `postgres://u:${KEY}@h/db`)).toEqual([KEY]);
  });

  test('skips parts of longer words and short matches', () => {
    expect(find('acme_[a-z]{24}', `x${KEY} ${KEY}y ${KEY}_ ${KEY}-`)).toEqual([]);
    expect(find('acme_[a-z]+', 'acme_abc')).toEqual([]);
  });

  test('does not search for a pattern without a distinctive prefix', () => {
    expect(find('[a-z_]{29}', KEY)).toEqual([]);
    expect(find('acm[a-z_]{26}', KEY)).toEqual([]);
  });
});

describe('matching time', () => {
  test('is linear for patterns that cause backtracking elsewhere', () => {
    const pattern = new CredentialPattern('(?:a+)+b');
    const budget = newBudget();
    const before = budget.left;
    expect(pattern.matches('a'.repeat(2000), budget)).toBe(false);
    expect(before - budget.left).toBeLessThan(30_000);
  });

  test('is limited for sets with many characters', () => {
    const many = Array.from({ length: 1900 }, (_, index) => String.fromCharCode(0x4000 + 2 * index)).join('');
    const pattern = new CredentialPattern(`acme[${many}a]*b`);
    expect(() => pattern.matches(`acme${'a'.repeat(10_000)}`, newBudget())).toThrow('takes too long');
  });

  test('is limited for samples that hardly grow', () => {
    const pattern = new CredentialPattern(`(?:(?:(?:(?:(?:a${'|'.repeat(1000)})*)*)*)*)*b`);
    const budget = newBudget();
    const draw = () => {
      for (let count = 0; count < 1000; count++) pattern.sample(budget);
    };
    expect(draw).toThrow('takes too long');
  });

  test('is limited for texts without a match', () => {
    const pattern = new CredentialPattern('acme_[a-z]{24}');
    const text = 'x'.repeat(1_000_000);
    const budget = newBudget();
    const search = () => {
      for (let count = 0; count < 2000; count++) [...pattern.findIn(text, budget)];
    };
    expect(search).toThrow('takes too long');
  });

  test('is limited for large environments', () => {
    const pattern = new CredentialPattern('acme_(?:[a-z_.]?){500}');
    expect(() => [...pattern.findIn('acme_.'.repeat(20_000), newBudget())]).toThrow('takes too long');
  });
});

describe('sample', () => {
  test.each([
    'acme_[a-z]{24}',
    '(?i)key-(?:[a-f]{20}|[0-9]{30})',
    '\\bacme_[^\\s/]{20}\\b',
    '.{16}',
    '\\S{16,}',
  ])('of %s matches the pattern and differs each time', (text) => {
    const pattern = new CredentialPattern(text);
    const samples = Array.from({ length: 5 }, () => pattern.sample(newBudget()) ?? '');
    for (const sample of samples) {
      expect([sample, pattern.matches(sample, newBudget())]).toEqual([sample, true]);
      expect(sample).toMatch(/^[!-~]{16,}$/);
    }
    expect(new Set(samples).size).toBe(5);
  });

  test.each([
    'short',
    '\\x00{20}',
    '[a-z]{1024}[a-z]{1024}',
    '[a-z]{20}\\bb',
    'k(?:ab)+',
    '[aaaa]{60}',
    '(?:a|a){90}',
  ])('of %s is null', (text) => {
    expect(new CredentialPattern(text).sample(newBudget())).toBeNull();
  });
});
