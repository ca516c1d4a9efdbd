import { Deadline } from '../../client/connection/call-limit.ts';
import { ClientError } from '../../client/errors.ts';
import type { StepDiscovery } from '../capability-roots/discovery-cache.ts';
import type { Environment } from '../environment.ts';
import { MAX_MCP_SERVERS } from '../limits.ts';
import type { TurnOptions } from '../turns/thread-environments.ts';
import { declaredServers } from './declarations.ts';
import type { McpServer } from './open-transport.ts';
import {
  type McpConnect,
  type McpServerName,
  type McpServerState,
  SupervisedServer,
} from './supervised-server.ts';

export interface McpRuntimeOptions<C> {
  /** Connects a client to a server that was started, and again after each restart. */
  readonly connect: McpConnect<C>;
  /** Receives what the servers that are programs write to stderr. */
  readonly onStderr?: (server: McpServerName, bytes: Uint8Array) => void;
}

/** A plugin's MCP server as one step sees it. */
export type StepMcpServer<C> = McpServerName & McpServerState<C>;

/** The MCP servers of one step. */
export interface StepMcpServers<C> {
  readonly servers: readonly StepMcpServer<C>[];
  /** Messages for users: which declarations are unusable, and why. */
  readonly warnings: readonly string[];
}

interface Wanted {
  readonly name: McpServerName;
  readonly environment: Environment;
  readonly server: McpServer;
}

/**
 * Runs the MCP servers that the plugins of one thread declare. The declarations come from the thread's discovery cache and are not
 * read again. Each server runs through the handle of the step, and is restarted when a step has another handle for its environment.
 */
export class McpRuntime<C> {
  readonly #options: McpRuntimeOptions<C>;
  readonly #servers = new Map<string, SupervisedServer<C>>();
  /** Servers that are being ended. */
  readonly #ending = new Map<string, Promise<void>>();
  #disposed = false;

  constructor(options: McpRuntimeOptions<C>) {
    this.#options = options;
  }

  /**
   * Starts the servers of a step, ends those that it does not have, and returns all of the step. It waits until each is ready or
   * its attempt has failed; a failed one is restarted in the background. With `wait: false` servers may be starting.
   */
  async update(
    discovered: readonly StepDiscovery<Environment>[],
    { wait = true, ...options }: TurnOptions = {},
  ): Promise<StepMcpServers<C>> {
    if (this.#disposed) throw new ClientError('closed', 'the MCP runtime is closed');
    const warnings: string[] = [];
    const wanted = this.#wanted(discovered, warnings);
    for (const [key, running] of this.#servers) {
      const next = wanted.get(key);
      const stays = next !== undefined && running.matches(next.environment, next.server);
      if (!stays || running.mayRetry) this.#end(key, running);
    }
    for (const [key, next] of wanted) {
      if (!this.#servers.has(key)) this.#servers.set(key, this.#start(key, next));
    }
    const servers = [...wanted.keys()].map((key) => this.#servers.get(key)!);
    if (wait) {
      const settled = Promise.all(servers.map((server) => server.settled));
      await new Deadline(options).wait('starting MCP servers', settled);
    }
    const step = servers.map(({ name, state }) => Object.freeze({ ...name, ...state }));
    return Object.freeze({ servers: Object.freeze(step), warnings: Object.freeze(warnings) });
  }

  /** Ends all servers. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    for (const [key, server] of this.#servers) this.#end(key, server);
    await Promise.all(this.#ending.values());
  }

  #wanted(
    discovered: readonly StepDiscovery<Environment>[],
    warnings: string[],
  ): ReadonlyMap<string, Wanted> {
    const wanted = new Map<string, Wanted>();
    for (const { root, environment, discovered: found } of discovered) {
      if (found === null) continue;
      const { environmentId } = root.location;
      const { servers, warnings: problems } = declaredServers(found, environmentId);
      warnings.push(...problems);
      for (const { name, server } of servers) {
        if (wanted.size >= MAX_MCP_SERVERS) {
          warnings.push(
            `MCP server '${name}' of plugin '${root.id}' is left out: there are more than ${MAX_MCP_SERVERS}`,
          );
          continue;
        }
        const key = JSON.stringify([environmentId, root.id, root.location.path, name]);
        wanted.set(key, { name: { plugin: root.id, name, environmentId }, environment, server });
      }
    }
    return wanted;
  }

  #start(key: string, { name, environment, server }: Wanted): SupervisedServer<C> {
    const { connect, onStderr } = this.#options;
    const isHeard = onStderr !== undefined && 'command' in server;
    const started = isHeard ? { ...server, onStderr: (bytes: Uint8Array) => onStderr(name, bytes) } : server;
    return new SupervisedServer(name, environment, started, connect, this.#ending.get(key));
  }

  #end(key: string, server: SupervisedServer<C>): void {
    this.#servers.delete(key);
    const ended = server.close().finally(() => {
      if (this.#ending.get(key) === ended) this.#ending.delete(key);
    });
    this.#ending.set(key, ended);
  }
}
