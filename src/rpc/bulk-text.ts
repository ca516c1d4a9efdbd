import { randomUUID } from 'node:crypto';
import { type BulkText, decodeMessage, type Message } from '../protocol/envelope.ts';
import type { MessageLimits } from '../protocol/limits.ts';
import { BULK_TEXT_MIN_BYTES } from './limits.ts';

/** Parameters that hold base64 in one method or another. */
const BULK_FIELDS = ['dataBase64', 'chunk'] as const;

/** Stands for the text in the message. Nobody outside knows it, so that no text of a client can be taken for it. */
const PLACEHOLDER = randomUUID();

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Decodes a large message without making its largest part a string: a base64 text that is a parameter stays what it is, bytes, and
 * goes with the request as {@link BulkText}. A message that has none is decoded as usual.
 */
export function decodeLargeMessage(bytes: Buffer, limits: MessageLimits): Message {
  const found = findBulkText(bytes);
  if (found !== null) {
    const { field, start, end } = found;
    const text = `${bytes.toString('utf8', 0, start)}${PLACEHOLDER}${bytes.toString('utf8', end)}`;
    const message = decodeMessage(text, limits);
    if (message.kind === 'request' && memberOf(message.params, field) === PLACEHOLDER) {
      return { ...message, bytes: bytes.length, bulk: { field, bytes: bytes.subarray(start, end) } };
    }
  }
  return decodeMessage(bytes.toString(), limits);
}

/** The params with the text put back, for a method that does not expect bulk text there. */
export function paramsWithText(params: unknown, { field, bytes }: BulkText): unknown {
  return { ...(params as object), [field]: Buffer.from(bytes).toString() };
}

function findBulkText(bytes: Buffer): { field: string; start: number; end: number } | null {
  for (const field of BULK_FIELDS) {
    const opening = `"${field}":"`;
    const at = bytes.indexOf(opening);
    if (at < 0) continue;
    const start = at + opening.length;
    const end = bytes.indexOf(QUOTE, start);
    if (end - start < BULK_TEXT_MIN_BYTES) continue;
    const backslash = bytes.indexOf(BACKSLASH, start);
    if (backslash < 0 || backslash > end) return { field, start, end };
  }
  return null;
}

function memberOf(params: unknown, field: string): unknown {
  return typeof params === 'object' && params !== null
    ? (params as Record<string, unknown>)[field]
    : undefined;
}
