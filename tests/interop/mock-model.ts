import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An output item of the model: a tool call or a message. */
export type ModelItem = Readonly<Record<string, unknown>>;

/** A request to the model. */
export interface ModelRequest {
  /** The whole conversation so far. */
  readonly input: readonly ModelItem[];
}

/**
 * A mock of the Responses API. The test takes each request and decides when and how to answer it.
 */
export class MockModel {
  readonly #server: Server;
  readonly #open: { request: ModelRequest; response: ServerResponse }[] = [];
  #arrived: () => void = () => {};
  #turns = 0;

  private constructor() {
    this.#server = createServer((request, response) => void this.#receive(request, response));
  }

  static async open(): Promise<MockModel> {
    const model = new MockModel();
    model.#server.listen(0, '127.0.0.1');
    await once(model.#server, 'listening');
    return model;
  }

  /** The `base_url` of the provider. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** Waits for the client's next request. One caller at a time. */
  async request(): Promise<ModelRequest> {
    while (this.#open[0] === undefined) {
      await new Promise<void>((resolve) => {
        this.#arrived = resolve;
      });
    }
    return this.#open[0].request;
  }

  /** Answers the request that `request` returned with one turn. */
  answer(items: readonly ModelItem[]): void {
    const open = this.#open.shift();
    if (open === undefined) throw new Error('the client is not waiting for the model');
    const id = `resp_${++this.#turns}`;
    const events = [
      { type: 'response.created', response: { id } },
      ...items.map((item) => ({ type: 'response.output_item.done', item })),
      { type: 'response.completed', response: { id, usage: USAGE } },
    ];
    open.response.writeHead(200, { 'content-type': 'text/event-stream' });
    open.response.end(
      events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''),
    );
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #receive(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(incoming);
    if (incoming.method !== 'POST' || incoming.url !== '/v1/responses') {
      response.writeHead(404).end();
      return;
    }
    const request = { input: (JSON.parse(body) as { input: ModelItem[] }).input };
    this.#open.push({ request, response });
    this.#arrived();
  }
}

const USAGE = {
  input_tokens: 1,
  input_tokens_details: null,
  output_tokens: 1,
  output_tokens_details: null,
  total_tokens: 2,
};

async function text(stream: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
