/**
 * Characters that must not reach a terminal or a log as they are: controls, line ends, and format characters. The latter are invisible or
 * change the order in which a text is shown, so one text can look like another.
 */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Replaces such characters by escapes as in JSON. */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, (character) =>
    Array.from({ length: character.length }, (_, index) => escapeOf(character.charCodeAt(index))).join(''),
  );
}

function escapeOf(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`;
}
