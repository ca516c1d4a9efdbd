import { connectWebSocket, type WebSocketTransport } from '../../src/transport/websocket.ts';

/** A client that stores nothing: it counts the output of one process and checks that no event is missing. */
export class CountingClient {
  bytes = 0;
  events = 0;
  readonly closed: Promise<void>;
  readonly transport: WebSocketTransport;
  onOutput: () => void = () => {};

  private constructor(transport: WebSocketTransport) {
    this.transport = transport;
    this.closed = new Promise((resolve, reject) => {
      transport.open({
        message: (text) => {
          try {
            if (this.#count(text)) resolve();
          } catch (error) {
            reject(error as Error);
          }
        },
        undecodable: () => undefined,
        drained: () => undefined,
        ended: () => undefined,
        closed: (reason) => reject(new Error(`connection closed: ${reason.code} ${reason.reason}`)),
      });
    });
    this.closed.catch(() => undefined);
  }

  static async connect(url: string): Promise<CountingClient> {
    const client = new CountingClient(await connectWebSocket(url));
    client.transport.send('{"id":1,"method":"initialize","params":{"clientName":"count"}}');
    client.transport.send('{"method":"initialized"}');
    return client;
  }

  start(params: Readonly<Record<string, unknown>>): void {
    this.transport.send(JSON.stringify({ id: 2, method: 'process/start', params }));
  }

  /** Returns true at `process/closed`. */
  #count(text: string): boolean {
    const seq =
      /^\{"method":"process\/(output|exited|closed)","params":\{"processId":"[^"]*","seq":(\d+)/.exec(text);
    if (seq === null) {
      if (text.startsWith('{"error"')) throw new Error(text);
      return false;
    }
    this.events++;
    if (Number(seq[2]) !== this.events) throw new Error(`expected seq ${this.events}, got ${seq[2]}`);
    if (seq[1] === 'output') {
      const from = text.indexOf('"chunk":"') + '"chunk":"'.length;
      const end = text.indexOf('"', from);
      const padding = text[end - 2] === '=' ? 2 : text[end - 1] === '=' ? 1 : 0;
      this.bytes += ((end - from) / 4) * 3 - padding;
      this.onOutput();
    }
    return seq[1] === 'closed';
  }
}
