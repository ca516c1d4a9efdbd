import { sleep } from '../../base/abort.ts';
import type { ExecutorFetch } from '../fetch.ts';
import {
  MAX_MCP_MESSAGE_BYTES,
  MCP_ERROR_TEXT_CHARS,
  MCP_FAREWELL_MS,
  MCP_STREAM_FIRST_PAUSE_MS,
  MCP_STREAM_LONGEST_PAUSE_MS,
  MCP_STREAM_REOPENS,
  MCP_STREAM_SHORTEST_PAUSE_MS,
} from '../limits.ts';
import { serverSentEvents } from './server-sent-events.ts';
import { type McpTransport, parseMessage } from './transport.ts';

/** The server answered a message with an HTTP error. */
export class McpHttpError extends Error {
  override readonly name = 'McpHttpError';
  /** The status of the answer. */
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** Where a stream was when it broke off. */
interface StreamPlace {
  lastEventId: string | null;
  retryMs: number | null;
  /** Whether anything came since it was opened. */
  moved: boolean;
}

/**
 * An MCP server that is reached over streamable HTTP: messages are posted, answers come as JSON or as events, and one more stream
 * brings what the server says by itself. Streams that break off go on where they were, if the server numbers its events.
 */
export class McpHttpTransport implements McpTransport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: object) => void) | undefined;
  sessionId?: string | undefined;
  readonly #fetch: ExecutorFetch;
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #life = new AbortController();
  #protocolVersion: string | null = null;
  #started = false;

  constructor(fetch: ExecutorFetch, url: string, headers: Readonly<Record<string, string>> = {}) {
    this.#fetch = fetch;
    this.#url = url;
    this.#headers = headers;
  }

  async start(): Promise<void> {
    if (this.#started) throw new Error('the transport was started already');
    this.#started = true;
  }

  readonly setProtocolVersion = (version: string): void => {
    this.#protocolVersion = version;
  };

  async send(message: object): Promise<void> {
    const response = await this.#ask('POST', {
      headers: { 'content-type': 'application/json', accept: `application/json, ${EVENTS}` },
      body: JSON.stringify(message),
    });
    this.sessionId = response.headers.get('mcp-session-id') ?? this.sessionId;
    if (!response.ok) throw await httpError(response);
    const type = response.headers.get('content-type') ?? '';
    if (response.body === null || response.status === 202) await response.body?.cancel();
    else if (type.startsWith(EVENTS))
      void this.#followAnswer(response.body, 'id' in message && 'method' in message);
    else if (type.startsWith('application/json')) this.#deliver(await boundedText(response.body));
    else await response.body.cancel();
    if ('method' in message && message.method === 'notifications/initialized') void this.#listen();
  }

  /** Ends the streams and tells the server that the session is over, which it may not understand. */
  async close(): Promise<void> {
    if (this.#life.signal.aborted) return;
    this.#life.abort(new Error('the transport is closed'));
    if (this.sessionId !== undefined) {
      const farewell = { headers: {}, signal: AbortSignal.timeout(MCP_FAREWELL_MS) };
      await this.#ask('DELETE', farewell).then(
        (response) => response.body?.cancel(),
        () => {},
      );
    }
    this.onclose?.();
  }

  #ask(
    method: string,
    { headers, ...init }: { headers: Record<string, string>; body?: string; signal?: AbortSignal },
  ): Promise<Response> {
    const session = this.sessionId === undefined ? {} : { 'mcp-session-id': this.sessionId };
    const version = this.#protocolVersion === null ? {} : { 'mcp-protocol-version': this.#protocolVersion };
    return this.#fetch(this.#url, {
      signal: this.#life.signal,
      ...init,
      method,
      headers: { ...this.#headers, ...headers, ...session, ...version },
    });
  }

  /** What the server says by itself. Not every server has such a stream. */
  async #listen(): Promise<void> {
    const place: StreamPlace = { lastEventId: null, retryMs: null, moved: false };
    try {
      const body = await this.#openStream(place);
      if (body === null) return;
      await this.#read(body, place).catch((error: Error) => this.#report(error));
      await this.#goOn(place, () => false);
    } catch (error) {
      this.#report(error as Error);
    }
  }

  /**
   * The answer to one message. It is over when an answer has come; before that a stream that broke off goes on elsewhere, and that
   * it cannot is reported if an answer is expected.
   */
  async #followAnswer(body: ReadableStream<Uint8Array>, isExpected: boolean): Promise<void> {
    const place: StreamPlace = { lastEventId: null, retryMs: null, moved: false };
    let answered = false;
    const seen = (message: object) => {
      answered ||= 'result' in message || 'error' in message;
    };
    try {
      await this.#read(body, place, seen).catch((error: Error) => this.#report(error));
      if (answered) return;
      if (place.lastEventId !== null) await this.#goOn(place, () => answered, seen);
      else if (isExpected) throw new Error('the MCP server has ended its answer before it was complete');
    } catch (error) {
      this.#report(error as Error);
    }
  }

  /** Opens a stream again each time it ends, until nothing comes of it several times in a row. */
  async #goOn(
    place: StreamPlace,
    isOver: () => boolean,
    seen: (message: object) => void = () => {},
  ): Promise<void> {
    let failures = 0;
    while (!this.#life.signal.aborted && !isOver()) {
      failures = place.moved ? 0 : failures + 1;
      if (failures > MCP_STREAM_REOPENS) throw new Error('the stream of the MCP server ends again and again');
      place.moved = false;
      const pauseMs = place.retryMs ?? MCP_STREAM_FIRST_PAUSE_MS * 2 ** failures;
      const boundedMs = Math.max(
        MCP_STREAM_SHORTEST_PAUSE_MS,
        Math.min(pauseMs, MCP_STREAM_LONGEST_PAUSE_MS),
      );
      await sleep(boundedMs, this.#life.signal);
      if (this.#life.signal.aborted) return;
      try {
        const body = await this.#openStream(place);
        if (body !== null) await this.#read(body, place, seen);
      } catch (error) {
        this.#report(error as Error);
      }
    }
  }

  async #openStream({ lastEventId }: StreamPlace): Promise<ReadableStream<Uint8Array> | null> {
    const place = lastEventId === null ? {} : { 'last-event-id': lastEventId };
    const response = await this.#ask('GET', { headers: { accept: EVENTS, ...place } });
    if (response.ok && response.headers.get('content-type')?.startsWith(EVENTS)) return response.body;
    if (response.status === NO_SUCH_METHOD) {
      await response.body?.cancel();
      return null;
    }
    throw await httpError(response);
  }

  async #read(
    body: ReadableStream<Uint8Array>,
    place: StreamPlace,
    seen: (message: object) => void = () => {},
  ): Promise<void> {
    for await (const { id, event, data, retryMs } of serverSentEvents(body, MAX_MCP_MESSAGE_BYTES)) {
      place.moved = true;
      place.lastEventId = id ?? place.lastEventId;
      place.retryMs = retryMs ?? place.retryMs;
      if (event === 'message' && data !== '') this.#deliver(data, seen);
    }
  }

  #deliver(text: string, seen: (message: object) => void = () => {}): void {
    const parsed = parseMessage(text);
    if (parsed instanceof Error) {
      this.#report(parsed);
      return;
    }
    for (const message of Array.isArray(parsed) ? (parsed as object[]) : [parsed]) {
      seen(message);
      this.onmessage?.(message);
    }
  }

  /** What fails because the transport was closed is no error. */
  #report(error: Error): void {
    if (!this.#life.signal.aborted) this.onerror?.(error);
  }
}

const EVENTS = 'text/event-stream';
const NO_SUCH_METHOD = 405;

async function httpError(response: Response): Promise<McpHttpError> {
  const text = response.body === null ? '' : await boundedText(response.body).catch(() => '');
  const shown = text.slice(0, MCP_ERROR_TEXT_CHARS);
  return new McpHttpError(
    response.status,
    `the MCP server answered with status ${response.status}: ${shown}`,
  );
}

async function boundedText(body: ReadableStream<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body) {
    size += piece.length;
    if (size > MAX_MCP_MESSAGE_BYTES)
      throw new Error(`a message has more than ${MAX_MCP_MESSAGE_BYTES} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces, size).toString('utf8');
}
