import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { BYTES_MEMBERS } from '../protocol/bytes-members.ts';
import { type BulkBytes, decodeMessage, type Message, type RequestMessage } from '../protocol/envelope.ts';
import { MalformedMessageError, scanRequestId } from '../protocol/json-scan.ts';
import type { MessageLimits } from '../protocol/limits.ts';
import { GrowableBuffer } from '../transport/growable-buffer.ts';
import { Base64StreamDecoder } from './base64-stream-decoder.ts';
import { EXPECTED_TEXT_BYTES, MAX_REQUEST_TEXT_BYTES } from './limits.ts';
import type { Base64Fault } from './strict-base64.ts';

/**
 * Decodes a large message while it arrives. A long base64 parameter is decoded on arrival: it never becomes a
 * string, and the request carries it as {@link BulkBytes}. The rest is decoded at the end, all of it in one turn of the
 * event loop. So a message with too much besides its base64 is refused, and no more of it is kept.
 */
export class LargeRequestDecoder {
  readonly #expectedBytes: number;
  /** The message without the base64. */
  readonly #text = new GrowableBuffer(EXPECTED_TEXT_BYTES);
  /**
   * Progress: searching for the base64, inside it, inside it after an invalid character, after it, without it in the
   * text, or with too much text.
   */
  #state: 'searching' | 'inside' | 'invalid' | 'after' | 'absent' | 'tooLong' = 'searching';
  /** Position of the base64 in the text. Until it is found: the position up to which the text was searched. */
  #position = 0;
  #field = '';
  #base64 = new Base64StreamDecoder(0);
  /** The fault in the base64, and the part that could not be decoded. */
  #fault: Base64Fault | null = null;
  readonly #undecoded = new GrowableBuffer(0);
  #receivedBytes = 0;
  /** The start and the end of a message with too much text. They have its id. */
  #head = '';
  #tail = Buffer.alloc(0);

  constructor(expectedBytes: number) {
    this.#expectedBytes = expectedBytes;
  }

  add(piece: Buffer): void {
    this.#receivedBytes += piece.length;
    this.#take(piece);
  }

  /**
   * Base64 is ASCII, so the text before and after it is checked without it. Base64 that does not end may end in any
   * bytes, so it is put back first.
   */
  isUtf8(): boolean {
    if (this.#state === 'inside' || this.#state === 'invalid') this.#putBack();
    return this.#state === 'tooLong' || isUtf8(this.#text.bytes);
  }

  /** Decodes the complete message. Must be called once. Throws MalformedMessageError. */
  decode(limits: MessageLimits): Message {
    try {
      return this.#decodeWithBulk(limits) ?? this.#decodeAsText(limits);
    } finally {
      this.#text.release();
    }
  }

  #decodeAsText(limits: MessageLimits): Message {
    if (this.#state === 'tooLong' || this.#text.length + this.#parameterLength() > MAX_REQUEST_TEXT_BYTES) {
      if (this.#state !== 'tooLong') this.#giveUp();
      throw new MalformedMessageError(
        `more than ${MAX_REQUEST_TEXT_BYTES} bytes besides a base64 parameter; send less in one request`,
        scanRequestId(this.#head) ?? this.#idAtEnd(),
      );
    }
    return decodeMessage(this.#textWith(this.#parameter()), limits);
  }

  /**
   * Returns null when the base64 is not a parameter of a request or the message is malformed. Decoding the whole
   * text then reports the position of the fault.
   */
  #decodeWithBulk(limits: MessageLimits): RequestMessage | null {
    if (this.#state !== 'after') return null;
    const message = decodedOrNull(this.#textWith(PLACEHOLDER), limits);
    if (message?.kind !== 'request' || memberOf(message.params, this.#field) !== PLACEHOLDER) return null;
    const base64 = this.#base64;
    const bulk = {
      field: this.#field,
      bytes: base64.bytes,
      problem: this.#fault?.problem ?? null,
      text: () => this.#parameter(),
      release: () => base64.release(),
    };
    return { ...message, bytes: this.#receivedBytes, bulk };
  }

  #take(piece: Buffer): void {
    if (this.#state === 'searching') this.#search(piece);
    else if (this.#state === 'inside') this.#takeBase64(piece);
    else if (this.#state === 'invalid') this.#takeInvalid(piece);
    else if (this.#state === 'tooLong') this.#keepTail(piece);
    else this.#takeText(piece);
  }

  #takeText(piece: Buffer): void {
    if (this.#text.length + piece.length <= MAX_REQUEST_TEXT_BYTES) {
      this.#text.add(piece);
    } else {
      this.#giveUp();
      this.#keepTail(piece);
    }
  }

  /** Frees what was received: the message is refused at its end. */
  #giveUp(): void {
    this.#state = 'tooLong';
    const text = this.#text.bytes;
    this.#head = text.toString('utf8', 0, Math.min(text.length, ID_SEARCH_BYTES));
    this.#keepTail(text);
    this.#text.release();
    this.#dropBase64();
  }

  #keepTail(piece: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, piece.subarray(-ID_SEARCH_BYTES)]).subarray(-ID_SEARCH_BYTES);
  }

  /** The id, if only short members follow the long ones, as many encoders place them. */
  #idAtEnd(): string | null {
    const [, members] = LAST_MEMBERS.exec(this.#tail.toString()) ?? [];
    return members === undefined ? null : scanRequestId(`{${members},${this.#head.trimStart().slice(1)}`);
  }

  #search(piece: Buffer): void {
    const before = this.#text.length;
    const looked = piece.subarray(0, MAX_REQUEST_TEXT_BYTES - before);
    this.#text.add(looked);
    const opening = OPENING.exec(this.#text.bytes.toString('latin1', this.#position));
    if (opening !== null) {
      this.#position += opening.index + opening[0].length;
      this.#field = opening[1]!;
      this.#base64 = new Base64StreamDecoder(this.#expectedBytes - this.#position);
      this.#text.cut(this.#position);
      this.#state = 'inside';
      this.#take(piece.subarray(this.#position - before));
    } else {
      this.#position = Math.max(0, this.#text.length - LONGEST_OPENING);
      if (looked.length === piece.length) return;
      this.#giveUp();
      this.#keepTail(piece);
    }
  }

  #takeBase64(piece: Buffer): void {
    const quote = piece.indexOf(QUOTE);
    const end = quote < 0 ? piece.length : quote;
    const taken = this.#base64.add(piece.subarray(0, end));
    if (taken < end || (quote >= 0 && !this.#base64.end())) {
      this.#state = 'invalid';
      this.#fault = this.#base64.fault();
      if (!PLAIN_TEXT.test(this.#base64.held)) this.#putBack();
      this.#take(piece.subarray(taken));
    } else if (quote >= 0) {
      this.#state = 'after';
      this.#take(piece.subarray(quote));
    }
  }

  /**
   * Reads the rest of a text that is not base64. When its end cannot be found by the next quote, the whole message
   * is read as JSON.
   */
  #takeInvalid(piece: Buffer): void {
    const quote = piece.indexOf(QUOTE);
    const rest = quote < 0 ? piece : piece.subarray(0, quote);
    const characters = rest.toString('latin1');
    if (!PLAIN_TEXT.test(characters)) {
      this.#putBack();
      this.#take(piece);
      return;
    }
    this.#fault?.add(characters);
    this.#undecoded.add(rest);
    if (quote < 0) return;
    this.#state = 'after';
    this.#take(piece.subarray(quote));
  }

  /** Moves the received part of the base64 back into the text. */
  #putBack(): void {
    if (this.#text.length + this.#parameterLength() > MAX_REQUEST_TEXT_BYTES) {
      this.#giveUp();
      return;
    }
    this.#text.add(Buffer.from(this.#parameter(), 'latin1'));
    this.#dropBase64();
    this.#state = 'absent';
  }

  #dropBase64(): void {
    this.#base64.release();
    this.#base64 = new Base64StreamDecoder(0);
    this.#undecoded.release();
    this.#fault = null;
  }

  /** The received part of the base64, unchanged. */
  #parameter(): string {
    return `${this.#base64.text()}${this.#undecoded.bytes.toString('latin1')}`;
  }

  #parameterLength(): number {
    return this.#base64.textLength + this.#undecoded.length;
  }

  #textWith(base64: string): string {
    const text = this.#text.bytes;
    if (base64 === '') return text.toString();
    return `${text.toString('utf8', 0, this.#position)}${base64}${text.toString('utf8', this.#position)}`;
  }
}

/** Returns the params with the text put back, for a method that expects a string. */
export function paramsWithText(params: unknown, bulk: Pick<BulkBytes, 'field' | 'text'>): unknown {
  return { ...(params as object), [bulk.field]: bulk.text() };
}

/** Bytes at the start and at the end of a message with too much text that are searched for its id. */
const ID_SEARCH_BYTES = 1024;
/** The members of the root object at the end of the message, as far as they are short. */
const LAST_MEMBERS =
  /,\s*("(?:id|method|jsonrpc)"\s*:\s*(?:-?\d{1,19}|"(?:[^"\\]|\\.){0,256}")\s*(?:,\s*"(?:id|method|jsonrpc)"\s*:\s*(?:-?\d{1,19}|"(?:[^"\\]|\\.){0,256}")\s*){0,2})\}\s*$/;

/** Replaces the base64 in the message. It is random, so no text of a client can equal it. */
const PLACEHOLDER = randomUUID();

const FIELDS = [...new Set(Object.values(BYTES_MEMBERS.requests))];
/**
 * Matches the start of a field's text, with or without a space after the colon. Inside another string its quotes would
 * be escaped.
 */
const OPENING = new RegExp(`"(${FIELDS.join('|')})": ?"`);
const LONGEST_OPENING = Math.max(...FIELDS.map((field) => `"${field}": "`.length));
const QUOTE = 0x22;
/** ASCII characters that stand for themselves in a JSON string. Others do too, but take more than one byte. */
const PLAIN_TEXT = /^[ !#-[\]-~]*$/;

function decodedOrNull(text: string, limits: MessageLimits): Message | null {
  try {
    return decodeMessage(text, limits);
  } catch (error) {
    if (error instanceof MalformedMessageError) return null;
    throw error;
  }
}

function memberOf(params: unknown, field: string): unknown {
  return typeof params === 'object' && params !== null
    ? (params as Record<string, unknown>)[field]
    : undefined;
}
