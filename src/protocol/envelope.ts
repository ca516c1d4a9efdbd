import { type RpcError, RpcErrorCode } from './errors.ts';
import { MalformedMessageError, type Numbers, scanJson } from './json-scan.ts';
import { MAX_IDENTIFIER_LENGTH, MAX_REQUEST_ID, type MessageLimits, MIN_REQUEST_ID } from './limits.ts';

/** The JSON text of a request id: a string or a 64-bit integer. Keeping the text preserves ids above 2^53. */
export type RequestId = string & { readonly __requestId: true };

/** W3C trace context of a request. */
export interface Trace {
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

export interface RequestMessage {
  readonly kind: 'request';
  readonly id: RequestId;
  readonly method: string;
  readonly params: unknown;
  readonly trace: Trace | null;
  /** Encoded size: the memory that the message occupies while it waits. */
  readonly bytes: number;
  /** A base64 parameter that was decoded while the message arrived. */
  readonly bulk?: BulkBytes;
}

/** The decoded bytes of a base64 parameter. The params contain a placeholder instead. */
export interface BulkBytes {
  readonly field: string;
  /** All bytes, or those before the fault. */
  readonly bytes: Uint8Array;
  /** The fault of the base64; null when it is valid. */
  readonly problem: string | null;
  /** Returns the parameter as it was sent. */
  text(): string;
  /**
   * Declares that the bytes are no longer used, also not by a thread, and that their memory may be reused.
   * Optional.
   */
  release(): void;
}

export interface NotificationMessage {
  readonly kind: 'notification';
  readonly method: string;
  readonly params: unknown;
}

export interface ResponseMessage {
  readonly kind: 'response';
  readonly id: RequestId;
  readonly result: unknown;
}

export interface ErrorMessage {
  readonly kind: 'error';
  readonly id: RequestId;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** A decoded message; its kind follows from its members. */
export type Message = RequestMessage | NotificationMessage | ResponseMessage | ErrorMessage;

/** The id of responses to messages without a readable id. */
export const UNREADABLE_ID = '-1' as RequestId;

/**
 * Decodes one message. Ignores `jsonrpc` and unknown members. A server accepts `integers` only; results may contain
 * `any` numbers. Throws MalformedMessageError.
 */
export function decodeMessage(text: string, limits: MessageLimits, numbers: Numbers = 'integers'): Message {
  const scan = scanJson(text, limits, numbers);
  const root = parse(scan.text);
  if (typeof root !== 'object' || root === null || Array.isArray(root)) {
    throw new MalformedMessageError('expected one JSON-RPC object (batches are not supported)');
  }
  const members = root as Record<string, unknown>;
  if (Object.hasOwn(members, 'method')) return decodeCall(members, scan.rawId, text.length);
  const id = checkId(members, scan.rawId);
  if (Object.hasOwn(members, 'result')) return { kind: 'response', id, result: members.result };
  return { kind: 'error', id, error: checkError(members.error) };
}

/** Encodes the result of a request. */
export function encodeResult(id: RequestId, result: unknown): string {
  return `{"id":${id},"result":${JSON.stringify(result)}}`;
}

/** Encodes the error response to a request. */
export function encodeError(id: RequestId, error: Pick<RpcError, 'code' | 'message' | 'data'>): string {
  const { code, message, data } = error;
  return `{"error":${JSON.stringify({ code, message, data })},"id":${id}}`;
}

/** Encodes the response to an invalid message. */
export function encodeMalformed({
  message,
  rawId,
}: Pick<MalformedMessageError, 'message' | 'rawId'>): string {
  return encodeError(readableId(rawId) ?? UNREADABLE_ID, {
    code: RpcErrorCode.invalidRequest,
    message: `malformed JSON-RPC message: ${message}`,
    data: undefined,
  });
}

/** The id as a response repeats it. Null when no request may have it. */
function readableId(rawId: string | null): RequestId | null {
  try {
    return rawId === null ? null : checkId({ id: JSON.parse(rawId) }, rawId);
  } catch {
    return null;
  }
}

/** Encodes a notification. Absent params are left out. */
export function encodeNotification(method: string, params?: unknown): string {
  return JSON.stringify({ method, params });
}

/** Encodes a request. Throws when a string is not valid Unicode: the receiver would end the connection. */
export function encodeRequest(
  id: RequestId,
  method: string,
  params?: unknown,
  trace: Trace | null = null,
): string {
  const tail = params === undefined ? '' : `,"params":${JSON.stringify(params)}`;
  if (tail.includes('\\ud') && LONE_SURROGATE.test(tail)) {
    throw new Error('a string in the params is not valid Unicode: it has half of a surrogate pair');
  }
  const mark = trace === null ? '' : `,"trace":${JSON.stringify(trace)}`;
  return `{"id":${id},"method":${JSON.stringify(method)}${tail}${mark}}`;
}

/** JSON.stringify escapes a surrogate only if it is alone. `\\ud800` is an escaped backslash and text. */
const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;

/** Returns a numeric counter as a request id. */
export function numericId(value: number): RequestId {
  return String(value) as RequestId;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The engine's message may quote the input, so only the position at its end is used.
    const position = / at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(String(error))?.[1];
    throw new MalformedMessageError(
      `not valid JSON${position === undefined ? '' : ` at offset ${position}`}`,
    );
  }
}

function decodeCall(members: Record<string, unknown>, rawId: string | null, bytes: number): Message {
  const { method, params } = members;
  if (typeof method !== 'string') throw new MalformedMessageError('`method` must be a string');
  if (!Object.hasOwn(members, 'id')) return { kind: 'notification', method, params };
  const id = checkId(members, rawId);
  return { kind: 'request', id, method, params, trace: checkTrace(members.trace), bytes };
}

function checkId(members: Record<string, unknown>, rawId: string | null): RequestId {
  if (!Object.hasOwn(members, 'id')) throw new MalformedMessageError('`id` is missing');
  // Encoded again: a substring of the message would keep the whole text in memory while the request runs.
  if (typeof members.id === 'string') {
    if (members.id.length > MAX_IDENTIFIER_LENGTH) {
      throw new MalformedMessageError(`\`id\` has more than ${MAX_IDENTIFIER_LENGTH} characters`);
    }
    return JSON.stringify(members.id) as RequestId;
  }
  if (Number.isSafeInteger(members.id)) return String(members.id) as RequestId;
  if (rawId !== null && isInt64(rawId)) return String(BigInt(rawId)) as RequestId;
  throw new MalformedMessageError('`id` must be a string or a 64-bit integer');
}

function isInt64(raw: string): boolean {
  if (raw.length > 20 || !/^-?\d+$/.test(raw)) return false;
  const value = BigInt(raw);
  return value >= MIN_REQUEST_ID && value <= MAX_REQUEST_ID;
}

function checkTrace(trace: unknown): Trace | null {
  if (trace === undefined || trace === null) return null;
  if (typeof trace !== 'object' || Array.isArray(trace))
    throw new MalformedMessageError('`trace` must be an object');
  const { traceparent, tracestate } = trace as Record<string, unknown>;
  return {
    traceparent: checkTraceText('traceparent', traceparent),
    tracestate: checkTraceText('tracestate', tracestate),
  };
}

function checkTraceText(key: string, value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return value;
  throw new MalformedMessageError(`\`trace.${key}\` must be a string`);
}

function checkError(error: unknown): ErrorMessage['error'] {
  if (error === undefined)
    throw new MalformedMessageError('neither `method`, `result` nor `error` is present');
  const { code, message } = (error ?? {}) as Record<string, unknown>;
  if (!Number.isInteger(code) || typeof message !== 'string') {
    throw new MalformedMessageError(
      '`error` must be an object with an integer `code` and a string `message`',
    );
  }
  return error as ErrorMessage['error'];
}
