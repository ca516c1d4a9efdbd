import { sleep } from '../../base/abort.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { ClientError } from '../../client/errors.ts';
import type { ExecutorFetch } from '../fetch.ts';
import {
  MAX_MCP_MESSAGE_BYTES,
  MCP_ERROR_TEXT_BYTES,
  MCP_SESSION_END_TIMEOUT_MS,
  MCP_STREAM_FIRST_DELAY_MS,
  MCP_STREAM_MAX_DELAY_MS,
  MCP_STREAM_MIN_DELAY_MS,
  MCP_STREAM_RETRIES,
} from '../limits.ts';
import type { McpTransport } from './transport.ts';

/** The part of the MCP SDK that is used here. */
interface HttpTransportModule {
  readonly StreamableHTTPClientTransport: new (
    url: URL,
    options: object,
  ) => McpTransport & { terminateSession(): Promise<void> };
}

/**
 * Opens the MCP SDK's transport to a server over streamable HTTP. Its requests go through `fetch`. Closing it also ends the session
 * at the server. `load` imports the SDK, an optional peer dependency.
 */
export async function openHttpTransport(
  fetch: ExecutorFetch,
  url: string,
  headers: Readonly<Record<string, string>> = {},
  load: () => Promise<HttpTransportModule> = importSdk,
): Promise<McpTransport> {
  const { StreamableHTTPClientTransport } = await load().catch((error: unknown) => {
    throw isMissing(error) ? sdkMissing(error) : error;
  });
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: limitFetch(fetch),
    requestInit: { headers },
    reconnectionOptions: {
      initialReconnectionDelay: MCP_STREAM_FIRST_DELAY_MS,
      maxReconnectionDelay: MCP_STREAM_MAX_DELAY_MS,
      reconnectionDelayGrowFactor: 2,
      maxRetries: MCP_STREAM_RETRIES,
    },
  });
  const close = transport.close.bind(transport);
  let closing: Promise<void> | null = null;
  transport.close = () => {
    closing ??= endSession(transport).then(close);
    return closing;
  };
  return transport;
}

/** A server need not support the end of a session, and closing aborts what is in progress. Neither is reported as an error. */
async function endSession(transport: McpTransport & { terminateSession(): Promise<void> }): Promise<void> {
  transport.onerror = undefined;
  await withTimeout(transport.terminateSession(), MCP_SESSION_END_TIMEOUT_MS).catch(() => {});
}

async function importSdk(): Promise<HttpTransportModule> {
  const sdk: unknown = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  return sdk as HttpTransportModule;
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'ERR_MODULE_NOT_FOUND';
}

function sdkMissing(cause: unknown): ClientError {
  const message =
    'an MCP server over HTTP needs the package @modelcontextprotocol/sdk, which is not installed';
  return new ClientError('config', message, { cause, hint: 'run `npm install @modelcontextprotocol/sdk`' });
}

/**
 * Adds the limits that the SDK does not have: on the size of a message and of an error text, on how often a stream is opened, and on
 * the number of streams in a row that end without a byte.
 */
function limitFetch(fetch: ExecutorFetch): ExecutorFetch {
  let emptyStreams = 0;
  let openedAtMs = Number.NEGATIVE_INFINITY;
  return async (input, init = {}) => {
    const isStream = (init.method ?? 'GET') === 'GET';
    if (isStream) {
      if (emptyStreams > MCP_STREAM_RETRIES) {
        throw new Error(`the MCP server ended its stream ${emptyStreams} times without sending anything`);
      }
      // The server may ask for any delay before the next attempt, even for none.
      const delayMs = openedAtMs + MCP_STREAM_MIN_DELAY_MS - performance.now();
      if (delayMs > 0) await sleep(delayMs, init.signal ?? new AbortController().signal);
      openedAtMs = performance.now();
    }
    const response = await fetch(input, init);
    if (response.body === null) return response;
    if (!response.ok) return withBody(response, truncate(response.body, MCP_ERROR_TEXT_BYTES));
    if (isStream) emptyStreams++;
    const received = () => {
      if (isStream) emptyStreams = 0;
    };
    const isEvents = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
    return withBody(response, limitMessages(response.body, isEvents, received));
  };
}

function withBody({ status, statusText, headers }: Response, body: ReadableStream<Uint8Array>): Response {
  return new Response(body, { status, statusText, headers });
}

/** Fails when a message is too large: the whole body, or one event of a stream of events. */
function limitMessages(
  body: ReadableStream<Uint8Array>,
  isEvents: boolean,
  received: () => void,
): ReadableStream<Uint8Array> {
  const size = new MessageSize(isEvents);
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        if (bytes.length > 0) received();
        if (size.add(bytes) > MAX_MCP_MESSAGE_BYTES) {
          throw new Error(`a message of the MCP server has more than ${MAX_MCP_MESSAGE_BYTES} bytes`);
        }
        controller.enqueue(bytes);
      },
    }),
  );
}

/** Counts the bytes of the message that is arriving. In a stream of events an empty line ends a message. */
class MessageSize {
  readonly #isEvents: boolean;
  #bytes = 0;
  #lineBytes = 0;
  #lastByte: number | undefined;

  constructor(isEvents: boolean) {
    this.#isEvents = isEvents;
  }

  /** Returns the size of the largest message that these bytes belong to. */
  add(bytes: Uint8Array): number {
    if (!this.#isEvents) {
      this.#bytes += bytes.length;
      return this.#bytes;
    }
    let largest = 0;
    for (let start = 0; start < bytes.length; ) {
      const newline = bytes.indexOf(NEWLINE, start);
      const end = newline < 0 ? bytes.length : newline;
      this.#lineBytes += end - start;
      this.#bytes += end - start;
      if (end > start) this.#lastByte = bytes[end - 1];
      largest = Math.max(largest, this.#bytes);
      if (newline >= 0) this.#endLine();
      start = end + 1;
    }
    return largest;
  }

  #endLine(): void {
    const isEmpty = this.#lineBytes === 0 || (this.#lineBytes === 1 && this.#lastByte === CARRIAGE_RETURN);
    // An empty `data:` line takes memory, too.
    this.#bytes = isEmpty ? 0 : this.#bytes + 1;
    this.#lineBytes = 0;
  }
}

/** The first bytes of a body; the rest is not read. */
function truncate(body: ReadableStream<Uint8Array>, maxBytes: number): ReadableStream<Uint8Array> {
  let left = maxBytes;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        controller.enqueue(bytes.subarray(0, left));
        left -= bytes.length;
        if (left <= 0) controller.terminate();
      },
    }),
  );
}

const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
