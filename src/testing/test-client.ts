import { encodeNotification, encodeRequest, numericId } from '../protocol/envelope.ts';
import { RpcError } from '../protocol/errors.ts';
import { type CallParamsOf, METHODS, type Method, type ResultOf } from '../protocol/registry.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import { connectWebSocket, WebSocketTransport } from '../transport/websocket.ts';
import { ProcessEvents } from './process-events.ts';

/** A message as it arrived. */
export type Incoming = Readonly<Record<string, unknown>>;

/**
 * A client that hides nothing: it sends anything, keeps every message that arrives, and lets a test wait for the next one or
 * for one that matches. Waits fail after `timeoutMs`, with what arrived instead.
 */
export class TestClient {
  /** Every message so far, answers included. */
  readonly received: Incoming[] = [];
  /** Resolves when the connection is gone, whoever ended it. */
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

  /** `initialize` and `initialized`; returns the session id. */
  async handshake(params: CallParamsOf<'initialize'> = { clientName: 'test' }): Promise<string> {
    const { sessionId } = await this.call('initialize', params);
    this.notify('initialized', {});
    return sessionId;
  }

  /** Calls a known method: params are typed, and an answer that does not fit its schema fails. */
  async call<M extends Method>(method: M, params: CallParamsOf<M>): Promise<ResultOf<M>> {
    const result = await this.request(method, params);
    return METHODS[method].result.parse(result) as ResultOf<M>;
  }

  /** Sends any request and waits for its answer. Rejects with RpcError when it is refused. */
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

  /** Sends a frame (or a line) as it is. */
  sendText(text: string): void {
    this.#transport.send(text);
  }

  /** Sends a binary websocket frame. */
  sendBinary(bytes: Uint8Array): void {
    this.#webSocket().sendBinary(bytes);
  }

  /** The next message that no call to `next` has returned yet. */
  async next(): Promise<Incoming> {
    await this.#until(() => this.received.length > this.#taken, 'the next message');
    return this.received[this.#taken++]!;
  }

  /** The first message, past or future, that matches. */
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

  /** What a process has reported on this connection, in seq order. */
  process(processId: string): ProcessEvents {
    let events = this.#processes.get(processId);
    if (events === undefined) {
      events = new ProcessEvents(processId);
      this.#processes.set(processId, events);
    }
    return events;
  }

  /** Waits for `process/closed` and for every event before it. */
  async closedProcess(processId: string): Promise<ProcessEvents> {
    const events = this.process(processId);
    await this.#until(() => events.complete, `the end of process ${processId}`);
    return events;
  }

  /** Stops or resumes reading, as a slow client does. */
  setReading(reading: boolean): void {
    this.#transport.setReceiving(reading);
  }

  /** Ends the connection politely. */
  async close(): Promise<void> {
    this.#transport.close({ code: CloseCode.normal, reason: 'done' });
    await this.closed;
  }

  /** Cuts the connection without a word. */
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
