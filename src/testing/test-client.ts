import { encodeNotification, encodeRequest, numericId } from '../protocol/envelope.ts';
import { RpcError } from '../protocol/errors.ts';
import { type CallParamsOf, METHODS, type Method, type ResultOf } from '../protocol/registry.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import { connectWebSocket, WebSocketTransport } from '../transport/websocket.ts';
import { ProcessEvents } from './process-events.ts';

/** A received message. */
export type Incoming = Readonly<Record<string, unknown>>;

/**
 * A low-level client for tests: it sends anything, keeps every received message, and waits for the next one or for
 * one that matches. A wait fails after `timeoutMs` and reports what arrived instead.
 */
export class TestClient {
  /** All messages received so far, including responses. */
  readonly received: Incoming[] = [];
  /** Resolves when the connection is closed by either side. */
  readonly closed: Promise<CloseReason>;
  timeoutMs = 20_000;
  readonly #transport: Transport;
  readonly #waiters = new Set<() => void>();
  readonly #processes = new Map<string, ProcessEvents>();
  #taken = 0;
  #nextId = 1;
  #closeReason: CloseReason | null = null;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.closed = new Promise((resolve) => {
      transport.open({
        message: (text) => this.#receive(text),
        undecodable: () => undefined,
        drained: () => undefined,
        ended: () => undefined,
        closed: (reason) => {
          this.#closeReason = reason;
          resolve(reason);
          this.#wake();
        },
      });
    });
  }

  /** Connects to a websocket URL. */
  static async connect(url: string, headers: Readonly<Record<string, string>> = {}): Promise<TestClient> {
    return new TestClient(await connectWebSocket(url, { headers }));
  }

  /** Sends `initialize` and `initialized`. Returns the session id. */
  async handshake(params: CallParamsOf<'initialize'> = { clientName: 'test' }): Promise<string> {
    const { sessionId } = await this.call('initialize', params);
    this.notify('initialized', {});
    return sessionId;
  }

  /** Calls a known method. Params are typed, and a result that violates its schema fails. */
  async call<M extends Method>(method: M, params: CallParamsOf<M>): Promise<ResultOf<M>> {
    const result = await this.request(method, params);
    return METHODS[method].result.parse(result) as ResultOf<M>;
  }

  /** Sends any request and waits for its response. Rejects with RpcError when it is an error. */
  async request(method: string, params?: unknown): Promise<unknown> {
    const id = this.#nextId++;
    this.sendText(encodeRequest(numericId(id), method, params));
    const answer = await this.waitFor((message) => message.id === id && !('method' in message));
    if ('result' in answer) return answer.result;
    const { code, message, data } = answer.error as { code: number; message: string; data?: unknown };
    throw new RpcError(code, message, data);
  }

  notify(method: string, params?: unknown): void {
    this.sendText(encodeNotification(method, params));
  }

  /** Sends a frame (or a line) unchanged. */
  sendText(text: string): void {
    this.#transport.send(text);
  }

  /** Sends a binary websocket frame. */
  sendBinary(bytes: Uint8Array): void {
    this.#webSocket().sendBinary(bytes);
  }

  /** Returns the next message that `next` has not returned yet. */
  async next(): Promise<Incoming> {
    await this.#until(() => this.received.length > this.#taken, 'the next message');
    return this.received[this.#taken++]!;
  }

  /** Returns the first message, past or future, that matches. */
  async waitFor(matches: (message: Incoming) => boolean): Promise<Incoming> {
    let looked = 0;
    let found: Incoming | undefined;
    await this.#until(() => {
      while (found === undefined && looked < this.received.length) {
        const message = this.received[looked++]!;
        if (matches(message)) found = message;
      }
      return found !== undefined;
    }, 'a matching message');
    return found!;
  }

  /** The events of a process on this connection, in sequence order. */
  process(processId: string): ProcessEvents {
    let events = this.#processes.get(processId);
    if (events === undefined) {
      events = new ProcessEvents(processId);
      this.#processes.set(processId, events);
    }
    return events;
  }

  /** Waits for `process/closed` and every event before it. */
  async closedProcess(processId: string): Promise<ProcessEvents> {
    const events = this.process(processId);
    await this.#until(() => events.complete, `the end of process ${processId}`);
    return events;
  }

  /** Stops or resumes reading, like a slow client. */
  setReading(reading: boolean): void {
    this.#transport.setReceiving(reading);
  }

  /** Closes the connection with a close handshake. */
  async close(): Promise<void> {
    this.#transport.close({ code: CloseCode.normal, reason: 'done' });
    await this.closed;
  }

  /** Cuts the connection without a close handshake. */
  async drop(): Promise<void> {
    this.#webSocket().drop();
    await this.closed;
  }

  #webSocket(): WebSocketTransport {
    if (this.#transport instanceof WebSocketTransport) return this.#transport;
    throw new Error('this needs a websocket connection');
  }

  #receive(text: string): void {
    const message = JSON.parse(text) as Incoming;
    this.received.push(message);
    const params = message.params as { processId?: unknown } | undefined;
    if (typeof message.method === 'string' && typeof params?.processId === 'string') {
      this.process(params.processId).add(message.method, params as Record<string, unknown>);
    }
    this.#wake();
  }

  #wake(): void {
    for (const check of this.#waiters) check();
  }

  #until(done: () => boolean, what: string): Promise<void> {
    if (done()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const finish = (error?: Error) => {
        clearTimeout(timer);
        this.#waiters.delete(check);
        if (error === undefined) resolve();
        else reject(error);
      };
      const check = () => {
        if (done()) finish();
        else if (this.#closeReason !== null) finish(this.#failure(what, 'the connection closed'));
      };
      const timer = setTimeout(
        () => finish(this.#failure(what, `${this.timeoutMs} ms passed`)),
        this.timeoutMs,
      );
      this.#waiters.add(check);
      check();
    });
  }

  #failure(what: string, why: string): Error {
    const last = this.received.slice(-5).map((message) => JSON.stringify(message).slice(0, 300));
    const closed =
      this.#closeReason === null ? '' : ` (${this.#closeReason.code} ${this.#closeReason.reason})`;
    return new Error(`${why}${closed} while waiting for ${what}; last received:\n${last.join('\n')}`);
  }
}
