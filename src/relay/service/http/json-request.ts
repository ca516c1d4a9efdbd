import type { IncomingMessage } from 'node:http';
import { MAX_BODY_BYTES } from '../limits.ts';
import { RequestError } from '../registry/request-error.ts';

/** Reads the JSON object that a request carries. Throws RequestError for anything else. How long it may take is the server's limit. */
export async function readJsonObject(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new RequestError(415, 'unsupported_media_type', 'the body must be application/json');
  }
  const value = parse(await readBody(request));
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new RequestError(400, 'invalid_request', 'the body is not a JSON object');
  }
  return value as Record<string, unknown>;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(UTF8.decode(body));
  } catch {
    throw new RequestError(400, 'invalid_request', 'the body is not JSON');
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = () =>
    new RequestError(413, 'request_too_large', `the body has more than ${MAX_BODY_BYTES} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
