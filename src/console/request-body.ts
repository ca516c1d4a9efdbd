import type { IncomingMessage } from 'node:http';
import { isObject } from '../base/is-object.ts';
import { MAX_BODY_BYTES } from './limits.ts';

/** A JSON object, or why the body is none. */
type Body =
  | { readonly value: Readonly<Record<string, unknown>> }
  | { readonly problem: 'wrongType' | 'tooLarge' | 'malformed' };

/** Reads the body of a request: a JSON object of at most {@link MAX_BODY_BYTES}. */
export async function readBody(request: IncomingMessage): Promise<Body> {
  // Forms of any web page can send the other types without asking this server first.
  if (!/^application\/json(?:\s*;|$)/i.test(request.headers['content-type'] ?? '')) {
    return { problem: 'wrongType' };
  }
  const text = await readText(request);
  if (text === null) return { problem: 'tooLarge' };
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { value } : { problem: 'malformed' };
  } catch {
    return { problem: 'malformed' };
  }
}

/** Resolves to null when the body is too large. A request that is cut off yields what has arrived. */
function readText(request: IncomingMessage): Promise<string | null> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    let bytes = 0;
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
      if (bytes <= MAX_BODY_BYTES) pieces.push(piece);
      else resolve(null);
    });
    for (const event of ['end', 'close']) {
      request.once(event, () => resolve(Buffer.concat(pieces).toString()));
    }
  });
}
