import { mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConnector } from '../../src/environment/remote/create-connector.ts';
import { RemoteEnvironment } from '../../src/environment/remote/remote-environment.ts';
import { AgentServers } from '../../src/mcp/agent-server.ts';
import { McpListener, type McpListenerOptions } from '../../src/mcp/http/mcp-listener.ts';
import type { McpOptions } from '../../src/mcp/options.ts';
import { createLogger } from '../../src/observability/log.ts';
import type { ExecServerConfig } from '../../src/server/config/config.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { removeFolder } from './remove-folder.ts';

/** An exec-server and an MCP server over HTTP, both in this process, and a directory to work in. */
export class McpFixture {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'mcp-')));
  /** What the MCP server has logged. */
  readonly log: string[] = [];
  readonly server: TestServer;
  readonly options: McpOptions;
  readonly servers: AgentServers;
  readonly #environment: RemoteEnvironment;
  readonly #listeners = new Map<string, McpListener>();

  private constructor(server: TestServer, options: Partial<McpOptions>) {
    this.server = server;
    this.#environment = new RemoteEnvironment(
      'local',
      createConnector({ type: 'websocket', url: server.url }),
    );
    this.options = {
      environments: [{ name: 'local', environment: this.#environment, isLocal: true, roots: [] }],
      readOnly: false,
      sandbox: 'off',
      ask: false,
      directory: this.root,
      confineRoots: false,
      log: createLogger('info', (line) => this.log.push(line)),
      ...options,
    };
    this.servers = new AgentServers(this.options);
  }

  static async open(
    options: Partial<McpOptions> = {},
    config: Partial<ExecServerConfig> = {},
  ): Promise<McpFixture> {
    return new McpFixture(await startServer(config), options);
  }

  /** Opens a listener and returns its URL. */
  async listen(options: Partial<McpListenerOptions> = {}): Promise<string> {
    const listener = new McpListener(this.servers, {
      address: { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 },
      tls: null,
      allowedHost: '',
      gate: null,
      readOnly: this.options.readOnly,
      log: this.options.log,
      ...options,
    });
    const url = await listener.listen();
    this.#listeners.set(url, listener);
    return url;
  }

  async closeListener(url: string): Promise<void> {
    await this.#listeners.get(url)?.close();
    this.#listeners.delete(url);
  }

  async close(): Promise<void> {
    for (const listener of this.#listeners.values()) await listener.close();
    await this.servers.close();
    await this.#environment.dispose();
    await this.server.close();
    removeFolder(this.root);
  }
}

/** The reference of the process that an answer names. */
export function processOf(text: string): string {
  const [, ref] = /^Process (\w+) /m.exec(text) ?? [];
  if (ref === undefined) throw new Error(`no process in: ${text}`);
  return ref;
}
