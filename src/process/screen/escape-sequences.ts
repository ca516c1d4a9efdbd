/**
 * What a control sequence changes:
 * - `pen`: the attributes of the text that follows (SGR).
 * - `line`: at most the line of the cursor.
 * - `screen`: other lines, or the line of the cursor itself.
 * - `mode`: a mode, title or character set, whatever the position of the cursor is.
 * - `complex`: anything else, such as margins, the saved cursor or the alternate screen.
 */
export type Effect = 'pen' | 'line' | 'screen' | 'mode' | 'complex';

export const ESC = 0x1b;
const [BEL, CAN, SUB, CSI, OSC] = [0x07, 0x18, 0x1a, 0x5b, 0x5d];
const [SHIFT_OUT, SHIFT_IN, C1_LEAD] = [0x0e, 0x0f, 0xc2];
/** Whether a byte after ESC begins a control string: DCS, SOS, OSC, PM, APC. */
const isStringStart = (byte: number) =>
  byte === OSC || byte === 0x50 || byte === 0x58 || byte === 0x5e || byte === 0x5f;

/**
 * Calls `visit` for every complete escape sequence until it returns false. The bytes must begin outside of a sequence. Returns where the
 * unfinished sequence or character at the end begins; the length when there is none.
 */
export function forEachSequence(bytes: Buffer, visit: (start: number, end: number) => boolean): number {
  let at = 0;
  for (;;) {
    const start = nextEscape(bytes, at);
    if (start === -1) return endOfCharacters(bytes, at);
    const end = sequenceEnd(bytes, start);
    if (end === -1) return start;
    if (!visit(start, end)) return end;
    at = end;
  }
}

/** Whether the bytes contain a control that is not an escape sequence and selects a character set, or an 8-bit control in UTF-8. */
export function hasOtherControls(bytes: Buffer): boolean {
  if (bytes.includes(SHIFT_OUT) || bytes.includes(SHIFT_IN)) return true;
  for (let at = bytes.indexOf(C1_LEAD); at !== -1; at = bytes.indexOf(C1_LEAD, at + 1)) {
    const next = bytes[at + 1];
    if (next !== undefined && next >= 0x80 && next <= 0x9f) return true;
  }
  return false;
}

/**
 * For bytes whose only escape sequences, if any, set colours or erase to the end of the line, as compilers and `grep` print them: where
 * the last of them resets all attributes; 0 when none does. Null for other bytes. Much faster than looking at each sequence.
 */
export function lastResetOfColors(bytes: Buffer): number | null {
  if (!bytes.includes(ESC)) return bytes.length;
  const text = bytes.toString('latin1');
  if (OTHER_SEQUENCE.test(text)) return null;
  return Math.max(0, text.lastIndexOf('\x1b[m'), text.lastIndexOf('\x1b[0m'));
}

const OTHER_SEQUENCE = /\x1b(?!\[[\d;:]*[mK])/;

/** What the sequence in `bytes` from `start` to `end` changes. */
export function effectOf(bytes: Buffer, start: number, end: number): Effect {
  const first = bytes[start + 1]!;
  if (first === CSI) return effectOfCsi(bytes, start, end);
  if (first === OSC) return titleOf(bytes, start, end) === null ? 'line' : 'mode';
  if (isStringStart(first)) return 'line';
  if (end - start > 2) return effectOfCharset(first, bytes[end - 1]!);
  return ESCAPES[String.fromCharCode(first)] ?? 'complex';
}

/** The parameters of a CSI sequence without its prefix and its final byte, such as `1;31`. */
export function paramsOf(bytes: Buffer, start: number, end: number): string {
  const from = isPrefix(bytes[start + 2]!) ? start + 3 : start + 2;
  return bytes.toString('latin1', from, end - 1);
}

/** The text that an OSC sequence sets as the title; null for any other. */
export function titleOf(bytes: Buffer, start: number, end: number): string | null {
  const kind = bytes[start + 2];
  if ((kind !== 0x30 && kind !== 0x32) || bytes[start + 3] !== 0x3b) return null;
  const last = bytes[end - 1];
  const textEnd = last === BEL ? end - 1 : bytes[end - 2] === ESC ? end - 2 : end;
  return bytes.toString('utf8', start + 4, textEnd);
}

/** Whether a sequence of the kind `pen` resets everything that came before it. */
export function resetsPen(bytes: Buffer, start: number): boolean {
  const first = bytes[start + 2];
  if (first === 0x6d) return true;
  const next = bytes[start + 3];
  return first === 0x30 && (next === 0x6d || next === 0x3b);
}

const ESCAPES: Readonly<Record<string, Effect>> = {
  D: 'screen',
  E: 'screen',
  M: 'screen',
  '=': 'mode',
  '>': 'mode',
  '\\': 'line',
};

/** By final byte, for sequences without a prefix and intermediate bytes. */
const CSI_EFFECTS: readonly Effect[] = Array.from({ length: 128 }, (_, byte) => {
  const name = String.fromCharCode(byte);
  if (name === 'm') return 'pen';
  if ('KCDG`aPX@bIZnciqt'.includes(name)) return 'line';
  return 'ABEFHfdeJLMST'.includes(name) ? 'screen' : 'complex';
});

/** Modes whose only effect is their own: keys, cursor, mouse, paste and focus reports, autowrap, synchronised output and others. */
const INDEPENDENT_MODES = new Set([
  1, 5, 7, 8, 9, 12, 25, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1034, 1035, 1036,
  1039, 2004, 2026, 2027, 2031, 2048, 9001,
]);

function effectOfCsi(bytes: Buffer, start: number, end: number): Effect {
  const final = bytes[end - 1]!;
  // A control inside of a sequence takes effect immediately.
  if (final < 0x40 || final > 0x7e) return 'complex';
  const first = bytes[start + 2]!;
  const hasIntermediate = end - start > 3 && bytes[end - 2]! < 0x30;
  if (!isPrefix(first) && !hasIntermediate && final !== 0x68 && final !== 0x6c) return CSI_EFFECTS[final]!;
  const name = String.fromCharCode(final);
  if (hasIntermediate) return bytes[end - 2] === 0x20 && name === 'q' ? 'mode' : 'complex';
  const params = paramsOf(bytes, start, end);
  if (!isPrefix(first)) return params === '4' ? 'mode' : 'complex';
  if (first === 0x3f) return effectOfPrivate(name, params);
  if (name === 'm' && first === 0x3e) return 'mode';
  return name === 'c' || name === 'q' || name === 'p' ? 'line' : 'complex';
}

function effectOfPrivate(name: string, params: string): Effect {
  if (name === 'h' || name === 'l') {
    return params.split(';').every((mode) => INDEPENDENT_MODES.has(Number(mode))) ? 'mode' : 'complex';
  }
  if (name === 'J') return 'screen';
  return name === 'K' || name === 'n' || name === 'u' || name === 'm' ? 'line' : 'complex';
}

/** `ESC ( B` and the like designate a character set; `ESC # 8` fills the screen; others change what no headless terminal shows. */
function effectOfCharset(intermediate: number, final: number): Effect {
  const name = String.fromCharCode(intermediate);
  if ('()*+'.includes(name)) return 'mode';
  return (name === '#' && final === 0x38) || '-./'.includes(name) ? 'complex' : 'line';
}

function isPrefix(byte: number): boolean {
  return byte >= 0x3c && byte <= 0x3f;
}

/** The next ESC. Where they are dense, a loop is faster than a call for each. */
function nextEscape(bytes: Buffer, from: number): number {
  const near = Math.min(bytes.length, from + NEAR_BYTES);
  for (let at = from; at < near; at++) if (bytes[at] === ESC) return at;
  return near === bytes.length ? -1 : bytes.indexOf(ESC, near);
}

const NEAR_BYTES = 48;

/**
 * Where the sequence ends that begins at `start`; -1 when it is not complete. A control inside of a sequence ends it here, although
 * terminals continue with the sequence: what follows is drawn either way.
 */
function sequenceEnd(bytes: Buffer, start: number): number {
  const first = bytes[start + 1];
  if (first === CSI) return finalByteEnd(bytes, start + 2, 0x40);
  if (first === undefined) return -1;
  if (isStringStart(first)) return stringEnd(bytes, start + 2, first);
  if (first === ESC) return start + 1;
  return first >= 0x20 && first <= 0x2f ? finalByteEnd(bytes, start + 2, 0x30) : start + 2;
}

function finalByteEnd(bytes: Buffer, from: number, lowestFinal: number): number {
  const { length } = bytes;
  for (let at = from; at < length; at++) {
    const byte = bytes[at]!;
    if (byte >= lowestFinal) return byte < 0x7f ? at + 1 : at;
    if (byte < 0x20) return byte === CAN || byte === SUB ? at + 1 : at;
  }
  return -1;
}

function stringEnd(bytes: Buffer, from: number, kind: number): number {
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === CAN || byte === SUB || (byte === BEL && kind === OSC)) return at + 1;
    if (byte === C1_LEAD && bytes[at + 1] === 0x9c) return at + 2;
    if (byte !== ESC) continue;
    const next = bytes[at + 1];
    if (next === undefined) return -1;
    return next === 0x5c ? at + 2 : at;
  }
  return -1;
}

/** Where an unfinished UTF-8 character at the end begins. */
function endOfCharacters(bytes: Buffer, from: number): number {
  let at = bytes.length - 1;
  while (at > from && at > bytes.length - 4 && (bytes[at]! & 0xc0) === 0x80) at--;
  const lead = at < from ? 0 : bytes[at]!;
  const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return bytes.length - at < size ? at : bytes.length;
}
