import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernHttp,
} from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import type { AgentServers } from '../../src/mcp/agent-server.ts';
import { serveMcpStdio } from '../../src/mcp/serve-stdio.ts';
import type { Logger } from '../../src/observability/log.ts';
import { CLI } from '../unit/cli/run-cli.ts';

/** The generations of the protocol, each with the SDK that speaks it. */
export const GENERATIONS = ['2025-11-25', '2026-07-28'] as const;
export type Generation = (typeof GENERATIONS)[number];

/** Where the server is: a URL, a server in this process, or the arguments of the program. */
export type Place =
  | { readonly url: string; readonly token?: string }
  | { readonly servers: AgentServers; readonly log: Logger }
  | {
      readonly args: readonly string[];
      readonly cwd?: string;
      readonly env?: Readonly<Record<string, string>>;
    };

/** What a client offers to the server. */
export interface Offers {
  /** Directories, as `file:` URIs. */
  readonly roots?: () => readonly string[];
  /** Answers the question of an approval. */
  readonly elicit?: (message: string) => 'accept' | 'decline' | 'cancel';
}

/** The result of a tool. */
export interface Answer {
  /** All texts, one after the other. */
  readonly text: string;
  readonly isError: boolean;
  readonly content: readonly { readonly type: string; readonly uri?: string }[];
}

interface CallLimits {
  readonly signal?: AbortSignal;
  readonly onProgress?: (report: { readonly progress: number }) => void;
}

interface ListedTool {
  readonly name: string;
  readonly annotations?: object | undefined;
  readonly inputSchema: object;
}

/** A client of either generation. */
export interface McpClient {
  readonly generation: Generation;
  tools(): Promise<readonly ListedTool[]>;
  call(name: string, args: Readonly<Record<string, unknown>>, limits?: CallLimits): Promise<Answer>;
  resources(): Promise<readonly { readonly uri: string }[]>;
  read(uri: string): Promise<string>;
  rootsChanged(): Promise<void>;
  close(): Promise<void>;
}

export async function connectMcp(
  generation: Generation,
  place: Place,
  offers: Offers = {},
): Promise<McpClient> {
  return generation === '2025-11-25' ? connectFirst(place, offers) : connectSecond(place, offers);
}

const INFO = { name: 'test', version: '1' };

function capabilitiesOf({ roots, elicit }: Offers) {
  return { ...(roots && { roots: { listChanged: true } }), ...(elicit && { elicitation: {} }) };
}

function stdioOf(place: Extract<Place, { readonly args: readonly string[] }>) {
  const env = { PATH: process.env.PATH!, ...place.env };
  const cwd = place.cwd === undefined ? {} : { cwd: place.cwd };
  return { command: process.execPath, args: [CLI, ...place.args], env, ...cwd, stderr: 'pipe' as const };
}

function headersOf({ token }: { readonly token?: string }) {
  return token === undefined ? {} : { requestInit: { headers: { authorization: `Bearer ${token}` } } };
}

async function connectFirst(place: Place, offers: Offers): Promise<McpClient> {
  const client = new Client(INFO, { capabilities: capabilitiesOf(offers) });
  const { roots, elicit } = offers;
  if (roots) {
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: roots().map((uri) => ({ uri })) }));
  }
  if (elicit) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => ({
      action: elicit(params.message),
      content: {},
    }));
  }
  await client.connect(
    'url' in place
      ? new StreamableHTTPClientTransport(new URL(place.url), headersOf(place))
      : 'servers' in place
        ? new LineTransport(place.servers, place.log)
        : new StdioClientTransport(stdioOf(place)),
  );
  return {
    generation: '2025-11-25',
    tools: async () => (await client.listTools()).tools,
    call: async (name, args, limits = {}) =>
      answerOf(await client.callTool({ name, arguments: { ...args } }, undefined, requestOptions(limits))),
    resources: async () => (await client.listResources()).resources,
    read: async (uri) => textOf((await client.readResource({ uri })).contents),
    rootsChanged: () => client.sendRootsListChanged(),
    close: () => client.close(),
  };
}

async function connectSecond(place: Place, offers: Offers): Promise<McpClient> {
  const client = new ModernClient(INFO, {
    capabilities: capabilitiesOf(offers),
    versionNegotiation: { mode: { pin: '2026-07-28' } },
  });
  const { roots, elicit } = offers;
  if (roots) client.setRequestHandler('roots/list', () => ({ roots: roots().map((uri) => ({ uri })) }));
  if (elicit) {
    client.setRequestHandler('elicitation/create', ({ params }) => ({
      action: elicit(params.message),
      content: {},
    }));
  }
  await client.connect(
    'url' in place
      ? new ModernHttp(new URL(place.url), headersOf(place))
      : 'servers' in place
        ? new LineTransport(place.servers, place.log)
        : new ModernStdio(stdioOf(place)),
  );
  return {
    generation: '2026-07-28',
    tools: async () => (await client.listTools()).tools,
    call: async (name, args, limits = {}) =>
      answerOf(await client.callTool({ name, arguments: { ...args } }, requestOptions(limits))),
    resources: async () => (await client.listResources()).resources,
    read: async (uri) => textOf((await client.readResource({ uri })).contents),
    rootsChanged: async () => {},
    close: () => client.close(),
  };
}

function requestOptions({ signal, onProgress }: CallLimits) {
  const onprogress = onProgress && (({ progress }: { progress: number }) => onProgress({ progress }));
  return { ...(signal && { signal }), ...(onprogress && { onprogress }) };
}

/** The client's end of a server that serves a pair of streams in this process. */
class LineTransport {
  onmessage?: (message: object) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  readonly #input = new PassThrough();
  readonly #output = new PassThrough();
  readonly #servers: AgentServers;
  readonly #log: Logger;

  constructor(servers: AgentServers, log: Logger) {
    this.#servers = servers;
    this.#log = log;
  }

  async start(): Promise<void> {
    serveMcpStdio(this.#servers, this.#input, this.#output, this.#log);
    createInterface({ input: this.#output }).on('line', (line) => this.onmessage?.(JSON.parse(line)));
  }

  async send(message: object): Promise<void> {
    this.#input.write(`${JSON.stringify(message)}\n`);
  }

  async close(): Promise<void> {
    this.#input.end();
    this.onclose?.();
  }
}

function answerOf(result: unknown): Answer {
  const { content, isError = false } = result as Pick<Answer, 'content'> & { readonly isError?: boolean };
  const texts = content.map((block) => (block as { text?: string }).text ?? '');
  return { text: texts.join('\n'), isError, content };
}

function textOf(contents: readonly object[]): string {
  return contents.map((content) => (content as { text?: string }).text ?? '').join('');
}
