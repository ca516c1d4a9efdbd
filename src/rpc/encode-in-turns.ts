import { setImmediate } from 'node:timers/promises';
import { limitExceeded, type RpcError } from '../protocol/errors.ts';
import { ENCODED_BYTES_PER_TURN } from './limits.ts';
import { BytesResult } from './results.ts';

/**
 * Encodes a result of possibly many megabytes. Other requests run in between, and the result is refused before more than `maxBytes` of
 * it are encoded.
 */
export function encodeInTurns(result: object, maxBytes: number): Promise<BytesResult> {
  return joinInTurns(piecesOf(result), maxBytes);
}

/** The same for a result that is already cut into pieces of JSON. */
export async function joinInTurns(pieces: Iterable<string>, maxBytes: number): Promise<BytesResult> {
  const encoded: Buffer[] = [];
  let bytes = 0;
  let waiting: string[] = [];
  let waitingLength = 0;
  const encode = () => {
    const part = Buffer.from(waiting.join(''));
    encoded.push(part);
    bytes += part.length;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    waiting = [];
    waitingLength = 0;
  };
  for (const piece of pieces) {
    waiting.push(piece);
    waitingLength += piece.length;
    if (waitingLength < ENCODED_BYTES_PER_TURN) continue;
    encode();
    await setImmediate();
  }
  encode();
  return new BytesResult('', Buffer.concat(encoded, bytes), '');
}

/** Each string, number and key is a piece. */
function* piecesOf(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) {
    yield JSON.stringify(value);
  } else if (Array.isArray(value)) {
    let separator = '[';
    for (const element of value) {
      yield separator;
      yield* piecesOf(element);
      separator = ',';
    }
    yield separator === '[' ? '[]' : ']';
  } else {
    let separator = '{';
    for (const [key, member] of Object.entries(value)) {
      if (member === undefined) continue;
      yield `${separator}${JSON.stringify(key)}:`;
      yield* piecesOf(member);
      separator = ',';
    }
    yield separator === '{' ? '{}' : '}';
  }
}

function tooLarge(maxBytes: number): RpcError {
  return limitExceeded(
    `the response has more than ${maxBytes} bytes, which the configured maximum allows (maxResponseBytes)`,
  );
}
