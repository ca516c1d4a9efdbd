import fc from 'fast-check';

const FIRST_SURROGATE = 0xd800;
const SURROGATES = 0x800;
const CHARACTERS = 0x110000 - SURROGATES;

/**
 * Any character of Unicode, for `fc.string`. It gives the same strings as the unit `binary` of fast-check, which creates a table of all
 * characters first: a second of CPU and 110 MB in each process.
 */
export const ANY_CHARACTER = fc.integer({ min: 0, max: CHARACTERS - 1 }).map(toCharacter, toIndex);

function toCharacter(index: number): string {
  return String.fromCodePoint(index < FIRST_SURROGATE ? index : index + SURROGATES);
}

/** With the inverse, fast-check also tries texts that are known to cause trouble, such as `__proto__`. */
function toIndex(character: unknown): number {
  const code = typeof character === 'string' ? character.codePointAt(0) : undefined;
  if (code === undefined || character !== String.fromCodePoint(code)) throw new Error('not a character');
  if (code < FIRST_SURROGATE) return code;
  if (code < FIRST_SURROGATE + SURROGATES) throw new Error('half of a character');
  return code - SURROGATES;
}
