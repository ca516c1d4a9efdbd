import type { IncomingMessage, ServerResponse } from 'node:http';
import { STALLED_RESPONSE_MS } from '../limits.ts';

/** Makes the request of a web API, which the SDK takes, of a request that Node has received. */
export function toWebRequest(request: IncomingMessage, url: URL, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const text of Array.isArray(value) ? value : [value ?? '']) headers.append(name, text);
  }
  // The body is passed separately, already parsed.
  return new Request(url, { method: request.method ?? 'GET', headers, signal });
}

/**
 * Sends the response. A stream is sent as it arrives, no faster than the client reads, and is cancelled when the client leaves. A client
 * that stops reading is disconnected.
 */
export async function sendWebResponse(response: Response, output: ServerResponse): Promise<void> {
  output.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) {
    output.end();
    return;
  }
  output.flushHeaders();
  const reader = response.body.getReader();
  const left = () => void reader.cancel().catch(() => {});
  output.once('close', left);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || output.destroyed) break;
      if (!output.write(value)) await drained(output);
    }
  } finally {
    output.off('close', left);
    output.end();
  }
}

function drained(output: ServerResponse): Promise<void> {
  if (output.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const stalled = setTimeout(() => output.destroy(), STALLED_RESPONSE_MS);
    const done = () => {
      clearTimeout(stalled);
      output.off('drain', done);
      output.off('close', done);
      resolve();
    };
    output.on('drain', done);
    output.on('close', done);
  });
}
