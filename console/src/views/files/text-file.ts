type LineEnding = '\n' | '\r\n' | '\r';

/**
 * The content of a text file in the form of an editor, where every line ends with LF: a browser changes the text of a `textarea` in this
 * way. The byte order mark and the line endings of the file are kept beside it.
 */
export interface TextFile {
  readonly text: string;
  readonly byteOrderMark: '' | '\ufeff';
  /** The ending of all lines, or of each line where they differ. */
  readonly endings: LineEnding | readonly LineEnding[];
}

const BYTE_ORDER_MARK = '\ufeff';

export function parseTextFile(content: string): TextFile {
  const byteOrderMark = content.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
  const own = content.slice(byteOrderMark.length);
  const endings = own.match(/\r\n|\r|\n/g) as LineEnding[] | null;
  const first = endings?.[0] ?? '\n';
  return {
    text: own.replaceAll(/\r\n?/g, '\n'),
    byteOrderMark,
    endings: endings?.every((ending) => ending === first) === false ? endings : first,
  };
}

/**
 * The file after one edit, which replaces one part of the text. Other lines keep their endings. New lines get the ending of the line
 * before them.
 */
export function editTextFile(file: TextFile, text: string): TextFile {
  if (typeof file.endings === 'string') return { ...file, text };
  const shorter = Math.min(file.text.length, text.length);
  let start = 0;
  while (start < shorter && file.text[start] === text[start]) start++;
  let rest = 0;
  while (rest < shorter - start && file.text.at(-1 - rest) === text.at(-1 - rest)) rest++;
  const before = countLines(text.slice(0, start));
  const after = countLines(text.slice(text.length - rest));
  const inserted = countLines(text) - before - after;
  const ending = file.endings[Math.max(0, before - 1)]!;
  const endings = [
    ...file.endings.slice(0, before),
    ...Array.from({ length: inserted }, () => ending),
    ...file.endings.slice(file.endings.length - after),
  ];
  return { ...file, text, endings: endings.length === 0 ? ending : endings };
}

/** The content of the file, with its own line endings and byte order mark. */
export function formatTextFile({ text, byteOrderMark, endings }: TextFile): string {
  if (typeof endings === 'string') return byteOrderMark + text.replaceAll('\n', endings);
  let line = 0;
  return byteOrderMark + text.replaceAll('\n', () => endings[line++]!);
}

/** What a reader should know about the line endings; null for the usual ones. */
export function describeEndings({ endings }: TextFile): string | null {
  if (typeof endings !== 'string') return 'mixed line endings';
  return endings === '\n' ? null : endings === '\r' ? 'CR' : 'CRLF';
}

function countLines(text: string): number {
  return text.split('\n').length - 1;
}
