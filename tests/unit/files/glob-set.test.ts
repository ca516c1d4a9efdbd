import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FileError } from '../../../src/files/errors.ts';
import { GlobSet, MatchBudget } from '../../../src/files/glob-set.ts';
import { GLOB_STEPS_PER_TURN, MAX_GLOB_CHARACTERS } from '../../../src/files/limits.ts';

// The rules of globs by backtracking, which is only usable for short ones.

function expand(glob: string): string[] {
  const open = glob.search(/(?<!\\)\{/);
  if (open < 0) return [glob];
  let depth = 0;
  const cuts = [open];
  for (let at = open; at < glob.length; at++) {
    if (glob[at] === '\\') at++;
    else if (glob[at] === '{') depth++;
    else if (glob[at] === ',' && depth === 1) cuts.push(at);
    else if (glob[at] === '}' && --depth === 0) {
      cuts.push(at);
      return cuts
        .slice(1)
        .flatMap((cut, index) =>
          expand(glob.slice(0, open) + glob.slice(cuts[index]! + 1, cut) + glob.slice(at + 1)),
        );
    }
  }
  throw new Error(`unbalanced: ${glob}`);
}

function matchesByBacktracking(glob: string, path: string, isDirectory: boolean): boolean {
  return expand(glob).some((text) => {
    const body = text.replace(/^\.\//, '');
    if (body.endsWith('/') && !isDirectory) return false;
    const names = body.split('/').filter((name) => name !== '');
    const anchored = names.length > 1 || body.startsWith('/');
    return matchNames(anchored ? names : ['**', ...names], path.split('/'));
  });
}

function matchNames(globs: readonly string[], names: readonly string[]): boolean {
  const [glob, ...rest] = globs;
  if (glob === undefined) return names.length === 0;
  if (glob === '**' && rest.length === 0) return names.length > 0;
  if (glob === '**') return names.some((_, at) => matchNames(rest, names.slice(at)));
  return names.length > 0 && matchName(glob, [...names[0]!]) && matchNames(rest, names.slice(1));
}

function matchName(glob: string, name: readonly string[]): boolean {
  const [, set, one, rest = ''] = /^(?:\[([^\]]+)\]|\\?([^[\\]|\\.))(.*)$/su.exec(glob) ?? [];
  if (glob === '') return name.length === 0;
  if (glob.startsWith('*'))
    return matchName(rest, name) || (name.length > 0 && matchName(glob, name.slice(1)));
  const [first, ...others] = name;
  if (first === undefined) return false;
  return (
    (set === undefined ? glob.startsWith('?') || one === first : inSet(set, first)) && matchName(rest, others)
  );
}

function inSet(set: string, character: string): boolean {
  return new RegExp(`^[${set.replace(/^!/, '^')}]$`, 'u').test(character);
}

const character = fc.constantFrom('a', 'b', 'c', 'é', '😀', '-');
const name = fc.string({ unit: character, minLength: 1, maxLength: 6 });
const paths = fc.array(name, { minLength: 1, maxLength: 5 }).map((names) => names.join('/'));
const piece = fc.oneof(
  { weight: 4, arbitrary: character },
  fc.constantFrom('*', '?', '**', '[ab]', '[!ab]', '[a-c]', '[é-ü]', '[!é]', '\\a'),
);
const nameGlob = fc.oneof(
  { weight: 4, arbitrary: fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join('')) },
  fc.constant('**'),
);
const plainGlob = fc
  .tuple(
    fc.constantFrom('', '', '/', './'),
    fc.array(nameGlob, { minLength: 1, maxLength: 4 }),
    fc.constantFrom('', '', '/'),
  )
  .map(([start, names, end]) => start + names.join('/') + end);
const globs = fc.oneof(
  { weight: 4, arbitrary: plainGlob },
  fc.tuple(plainGlob, plainGlob, plainGlob).map(([a, b, c]) => `{${a},{${b},}x}${c}`),
);

test('matches exactly what backtracking matches', () => {
  fc.assert(
    fc.property(
      fc.array(globs, { minLength: 1, maxLength: 12 }),
      paths,
      fc.boolean(),
      (texts, path, isDirectory) => {
        const expected = texts.some((glob) => matchesByBacktracking(glob, path, isDirectory));
        expect(GlobSet.parse(texts).matches(path, isDirectory)).toBe(expected);
      },
    ),
    { numRuns: 3_000 },
  );
});

test('finds the directories on the way that match', () => {
  fc.assert(
    fc.property(globs, paths, (glob, path) => {
      const set = GlobSet.parse([glob]);
      const above = path
        .split('/')
        .map((_, depth, names) => names.slice(0, depth).join('/'))
        .slice(1);
      const isFile = set.matches(path, false);
      const isAncestor = above.some((directory) => set.matches(directory, true));
      expect(set.matchesFileOrAncestor(path)).toBe(isFile || isAncestor);
      const only = above.some((directory) => set.matches(directory, true) && !set.matches(directory, false));
      expect(set.matchesFileOrAncestorAsDirectory(path)).toBe(isFile || only);
    }),
    { numRuns: 1_000 },
  );
});

test('no globs match nothing', () => {
  const none = GlobSet.parse([]);
  expect([
    none.matches('a', true),
    none.matchesFileOrAncestor('a/b'),
    none.matchesFileOrAncestorAsDirectory('a/b'),
  ]).toEqual([false, false, false]);
});

describe('the work is bounded', () => {
  const names = 'a'.repeat(255);
  const longPath = Array.from({ length: 16 }, () => names).join('/');

  test.each([
    ['a star before many characters', `*${'a'.repeat(28)}b`],
    ['many stars', '*a'.repeat(15)],
    ['many directories', `${'**/a/'.repeat(5)}b`],
    ['a set of characters outside ASCII', '*[!é-ü]'.repeat(4)],
  ])('by the number of characters: 255 globs with %s', (_name, glob) => {
    const set = GlobSet.parse(Array.from({ length: 255 }, (_, index) => `${glob}${index % 10}`));
    expect(set.stepsPerCharacter).toBeLessThanOrEqual(MAX_GLOB_CHARACTERS / 32 + 255);
    expect(set.matches(longPath, false)).toBe(false);
    expect(set.matches(`${longPath}/${'é'.repeat(120)}`, false)).toBe(false);
  });

  test.each([
    ['many long globs', Array.from({ length: 5 }, () => 'a'.repeat(4_096))],
    ['braces with long alternatives', [`${'a'.repeat(3_000)}{a,b,c,d,e,f}`]],
    ['braces before a long text', [`{${'a,'.repeat(200)}b}${',x'.repeat(1_000)}`]],
  ])('refuses %s', (_name, texts) => {
    expect(() => GlobSet.parse(texts)).toThrow(
      `globs have more than ${MAX_GLOB_CHARACTERS} characters in all`,
    );
  });

  test.each([
    ['nested braces', `${'{'.repeat(2_000)}a${'}'.repeat(2_000)}`],
    ['braces in a row', '{a}'.repeat(1_300)],
    ['slashes', `a${'/'.repeat(4_000)}b`],
    ['brackets', '['.repeat(4_096)],
    ['open braces', '{'.repeat(4_096)],
    ['commas in braces', `{${','.repeat(4_000)}}`],
    ['backslashes', '\\'.repeat(4_095)],
    ['combining marks', '\u0323\u0301'.repeat(2_048)],
    ['stars', '*'.repeat(4_096)],
  ])('parses or refuses a glob of 4,096 characters with many %s', (_name, text) => {
    try {
      for (const glob of [text, `x/${text.slice(2)}`]) GlobSet.parse([glob]).matches(longPath, false);
    } catch (error) {
      expect(error).toBeInstanceOf(FileError);
    }
  });

  test('gives other work a turn, and ends at its limit', async () => {
    const budget = new MatchBudget(3 * GLOB_STEPS_PER_TURN, () => new Error('too much'));
    expect(budget.pause()).toBeNull();
    budget.spend(GLOB_STEPS_PER_TURN);
    let other = false;
    setImmediate(() => {
      other = true;
    });
    await budget.pause();
    expect(other).toBe(true);
    expect(budget.pause()).toBeNull();
    budget.spend(2 * GLOB_STEPS_PER_TURN);
    expect(() => budget.spend(1)).toThrow('too much');
    budget.reset();
    expect(() => budget.spend(1)).not.toThrow();
  });
});
