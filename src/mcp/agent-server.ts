import { channel } from 'node:diagnostics_channel';
import {
  isInputRequiredResult,
  type jsonSchemaValidator,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  Server,
} from '@modelcontextprotocol/server';
import type { ResourceContent } from '../agent/toolset/index.ts';
import { VERSION } from '../observability/version.ts';
import { ClientConnection, refusal } from './client-connection.ts';
import { descriptionFor, instructionsFor } from './instructions.ts';
import type { McpOptions } from './options.ts';
import { RecentResources } from './recent-resources.ts';
import { TooManyResultsError, withinBudget } from './result-budget.ts';

/** Creates the MCP servers of one program: one for each connection, or for each request of a protocol without connections. */
export class AgentServers {
  readonly #options: McpOptions;
  readonly #resources = new RecentResources();
  readonly #connections = new Set<ClientConnection>();

  constructor(options: McpOptions) {
    this.#options = options;
  }

  /** Creates the tools of one client. Several servers may use them, one after the other. */
  connection(rootsPolicy: 'ask' | 'never'): ClientConnection {
    const connection = new ClientConnection(this.#options, this.#resources, rootsPolicy);
    this.#connections.add(connection);
    return connection;
  }

  /** Ends the calls of one client. */
  async end(connection: ClientConnection): Promise<void> {
    this.#connections.delete(connection);
    await connection.close();
  }

  /** Ends the calls of all clients. Programs run on. */
  async close(): Promise<void> {
    await Promise.all([...this.#connections].map((connection) => this.end(connection)));
  }

  /** Creates a server that speaks both generations of the protocol, for a transport of the SDK. */
  server(connection: ClientConnection): Server {
    const server = new Server(
      { name: 'exec-server', title: 'exec-server', version: VERSION },
      {
        capabilities: { tools: {}, resources: {} },
        instructions: instructionsFor(this.#options, connection.workspaces),
        jsonSchemaValidator: UNUSED_VALIDATOR,
        cacheHints: { 'tools/list': { ttlMs: LIST_TTL_MS, cacheScope: 'private' } },
      },
    );
    server.onerror = ({ message }) => this.#options.log.debug('MCP', { reason: message });
    this.#serveTools(server, connection);
    this.#serveResources(server, connection);
    server.setNotificationHandler('notifications/roots/list_changed', () => connection.rootsChanged());
    return server;
  }

  #serveTools(server: Server, connection: ClientConnection): void {
    server.setRequestHandler('tools/list', () => {
      FIRST_SESSION.publish(null);
      return {
        tools: connection.tools.tools.map((tool) => ({
          name: tool.name,
          title: tool.title,
          description: descriptionFor(tool, this.#options, connection.workspaces),
          inputSchema: tool.parameters as never,
          annotations: { title: tool.title, ...tool.annotations },
        })),
      };
    });
    server.setRequestHandler('tools/call', async ({ params }, context) => {
      const { name, arguments: args } = params;
      try {
        return await withinBudget('tool', context.mcpReq.signal, () =>
          connection.call(server, name, args, context),
        );
      } catch (error) {
        if (error instanceof TooManyResultsError) return refusal(error.message);
        throw error;
      }
    });
  }

  #serveResources(server: Server, connection: ClientConnection): void {
    server.setRequestHandler('resources/list', () => ({
      resources: this.#resources.list().map(({ uri, name, mimeType, size }) => ({
        uri,
        name,
        mimeType,
        ...(size !== null && { size }),
      })),
    }));
    server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [...TEMPLATES] }));
    server.setRequestHandler('resources/read', async ({ params: { uri } }, context) => {
      try {
        return await withinBudget('resource', context.mcpReq.signal, async () => {
          const content = await connection.read(server, uri, context);
          return isInputRequiredResult(content) ? content : contentsOf(uri, content as ResourceContent);
        });
      } catch (error) {
        if (error instanceof ProtocolError) throw error;
        if (error instanceof TooManyResultsError)
          throw new ProtocolError(ProtocolErrorCode.InternalError, error.message);
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, (error as Error).message, { uri });
      }
    });
  }
}

/** Lets the program store its compiled code after the start. */
const FIRST_SESSION = channel('exec-server:first-session');

const TEMPLATES = [
  {
    uriTemplate: 'exec-server://{environment}/processes/{process}/output',
    name: 'output',
    title: 'Output of a process',
    description: 'The output that the server retains of a process, also after its exit.',
    mimeType: 'text/plain',
  },
  {
    uriTemplate: 'exec-server://{environment}/files/{+path}',
    name: 'file',
    title: 'File',
    description: 'A file of an environment, by its absolute path without the first slash.',
  },
] as const;

/** The list of tools depends on the flags of the program alone. */
const LIST_TTL_MS = 60 * 60_000;

/** Approvals have no form to validate. The SDK would load a validator for JSON Schema instead. */
const UNUSED_VALIDATOR: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

function contentsOf(uri: string, { mimeType, bytes, truncated }: ResourceContent): ReadResourceResult {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isText = /^text\/|[/+](?:json|xml)$/.test(mimeType);
  const content = isText ? { text: buffer.toString('utf8') } : { blob: buffer.toString('base64') };
  return { contents: [{ uri, mimeType, ...content, ...(truncated && { _meta: TRUNCATED }) }] };
}

const TRUNCATED = { 'exec-server/truncated': true };
