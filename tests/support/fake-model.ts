import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The APIs that the model speaks, by the path of a request. */
type Api = '/v1/messages' | '/v1/chat/completions' | '/v1/responses';

/** A request of an agent. */
export interface ModelRequest {
  readonly path: string;
  // biome-ignore lint/suspicious/noExplicitAny: it is the JSON of several APIs.
  readonly body: any;
}

/** A call that the model makes, by the name of the tool. */
interface ModelCall {
  readonly name: string;
  readonly arguments: object;
}

/** A model on loopback. It answers the first request with calls of tools, and the next one with a text. */
export class FakeModel {
  readonly requests: ModelRequest[] = [];
  readonly url: string;
  readonly #server: ReturnType<typeof createServer>;

  private constructor(server: ReturnType<typeof createServer>, calls: readonly ModelCall[], answer: string) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', async (request, response) => {
      const body = JSON.parse(await textOf(request));
      this.requests.push({ path: request.url!, body });
      const isFirst = this.requests.length === 1;
      const reply = REPLIES[request.url as Api]?.(isFirst ? calls : [], isFirst ? '' : answer);
      response.writeHead(reply === undefined ? 404 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(reply ?? {}));
    });
  }

  static async open(calls: readonly ModelCall[], answer: string): Promise<FakeModel> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FakeModel(server, calls, answer);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

const REPLIES: Readonly<Record<Api, (calls: readonly ModelCall[], text: string) => object>> = {
  '/v1/messages': (calls, text) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'fake',
    content: [
      ...(text === '' ? [] : [{ type: 'text', text }]),
      ...calls.map((call, index) => ({
        type: 'tool_use',
        id: `toolu_${index}`,
        name: call.name,
        input: call.arguments,
      })),
    ],
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }),
  '/v1/chat/completions': (calls, text) => ({
    id: 'chat_1',
    object: 'chat.completion',
    created: 1,
    model: 'fake',
    choices: [
      {
        index: 0,
        finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
        message: {
          role: 'assistant',
          content: text,
          ...(calls.length > 0 && {
            tool_calls: calls.map((call, index) => ({
              id: `call_${index}`,
              type: 'function',
              function: { name: call.name, arguments: JSON.stringify(call.arguments) },
            })),
          }),
        },
      },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }),
  '/v1/responses': (calls, text) => ({
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    status: 'completed',
    model: 'fake',
    output: [
      ...calls.map((call, index) => ({
        type: 'function_call',
        id: `fc_${index}`,
        call_id: `call_${index}`,
        name: call.name,
        arguments: JSON.stringify(call.arguments),
        status: 'completed',
      })),
      ...(text === ''
        ? []
        : [
            {
              type: 'message',
              id: 'msg_1',
              role: 'assistant',
              status: 'completed',
              content: [{ type: 'output_text', text, annotations: [] }],
            },
          ]),
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  }),
};

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}
