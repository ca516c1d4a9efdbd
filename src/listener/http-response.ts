import type { IncomingMessage } from 'node:http';

/** A complete HTTP response with a short body. */
export interface HttpResponse {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Builds a response with a plain-text body. */
export function textResponse(
  status: number,
  body = '',
  headers: Readonly<Record<string, string>> = {},
): HttpResponse {
  const type = body === '' ? {} : { 'content-type': 'text/plain; charset=utf-8' };
  return {
    status,
    body,
    headers: { ...type, ...headers, 'content-length': String(Buffer.byteLength(body)) },
  };
}

/** Serializes a response for the raw socket of an upgrade request, which Node's HTTP server no longer manages. */
export function encodeResponse({ status, body, headers }: HttpResponse, reasonPhrase: string): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${reasonPhrase}\r\n${lines.join('')}connection: close\r\n\r\n${body}`;
}

/** Checks the websocket headers of an upgrade request, before authentication. @returns the refusal, or null when they are valid. */
export function handshakeError({ headers }: IncomingMessage): HttpResponse | null {
  if (headers['sec-websocket-version'] !== '13') {
    return textResponse(400, "`Sec-WebSocket-Version` header did not include '13'");
  }
  return headers['sec-websocket-key'] === undefined
    ? textResponse(400, '`Sec-WebSocket-Key` header missing')
    : null;
}
