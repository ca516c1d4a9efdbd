import { setImmediate as nextTurn } from 'node:timers/promises';
import { ENCODED_PER_TURN_CHARACTERS } from './limits.ts';
import { BytesResult } from './results.ts';

/**
 * Encodes a result that may have many megabytes, such as the contents of files. The event loop serves other requests
 * between its parts.
 */
export async function encodeInTurns(result: object): Promise<BytesResult> {
  const encoded: Buffer[] = [];
  let text = '';
  for (const part of jsonParts(result)) {
    text += part;
    if (text.length < ENCODED_PER_TURN_CHARACTERS) continue;
    encoded.push(Buffer.from(text));
    text = '';
    await nextTurn();
  }
  return new BytesResult('', Buffer.concat(encoded), text);
}

/** The JSON of a value, one member at a time. Absent members are left out. */
function* jsonParts(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) {
    yield JSON.stringify(value);
    return;
  }
  const isList = Array.isArray(value);
  yield isList ? '[' : '{';
  let separator = '';
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    yield isList ? separator : `${separator}${JSON.stringify(key)}:`;
    yield* jsonParts(member);
    separator = ',';
  }
  yield isList ? ']' : '}';
}
