import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { encodeResponse } from '../listener/http-response.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/** An answer of the console. */
export interface Answer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** Why it is an error. */
  readonly reason?: string;
}

/** The kind of an error, for the page. */
type ErrorCode =
  | 'signedOut'
  | 'expired'
  | 'kicked'
  | 'badCode'
  | 'badRequest'
  | 'forbidden'
  | 'notFound'
  | 'tooLarge'
  | 'busy'
  | 'unreachable'
  | 'offline'
  | 'failed';

/** An answer in JSON. */
export function answerJson(
  status: number,
  value: object,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const type = { 'content-type': 'application/json; charset=utf-8' };
  return { status, body: JSON.stringify(value), headers: { ...type, ...headers } };
}

/** An error in JSON. */
export function fail(
  status: number,
  error: ErrorCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { ...answerJson(status, { error, message }, headers), reason: message };
}

/** The headers of an answer. Those of the answer override the ones that all answers have. */
function headersOf({ body, headers }: Answer): Readonly<Record<string, string>> {
  return { ...SECURITY_HEADERS, ...headers, 'content-length': String(Buffer.byteLength(body)) };
}

/** Sends an answer. */
export function sendAnswer(request: IncomingMessage, output: ServerResponse, answer: Answer): void {
  output.writeHead(answer.status, headersOf(answer));
  output.end(request.method === 'HEAD' ? '' : answer.body);
}

/** Sends an answer to a request for a websocket, and closes the connection. */
export function endWithAnswer(socket: Duplex, answer: Answer): void {
  const response = { status: answer.status, headers: headersOf(answer), body: String(answer.body) };
  socket.end(encodeResponse(response, STATUS_CODES[answer.status] ?? ''), () => socket.destroy());
}
