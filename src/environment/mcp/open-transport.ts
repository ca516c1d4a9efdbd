import type { HttpRequestHeader } from '../../client/backend.ts';
import { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import { fetchOver } from '../fetch.ts';
import { LOCAL_ENVIRONMENT_ID } from '../provider.ts';
import { openHttpTransport } from './http-transport.ts';
import { McpStdioTransport } from './stdio-transport.ts';
import type { McpTransport } from './transport.ts';

/** The configuration of an MCP server: its environment, and how to reach it from there. */
export type McpServer = McpProgramServer | McpWebServer;

export interface McpProgramServer {
  /** Default: this machine. */
  readonly environmentId?: string;
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Names of the executor's variables that the program gets, in addition to those that every program needs. */
  readonly envVars?: readonly string[];
  /** A `file:` URI. Default: the executor's working directory. */
  readonly cwd?: string;
  /** Receives what the program writes to stderr. */
  readonly onStderr?: (bytes: Uint8Array) => void;
}

export interface McpWebServer {
  /** Default: this machine. */
  readonly environmentId?: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Headers by name, each with the executor's environment variable that has its value. */
  readonly envHeaders?: Readonly<Record<string, string>>;
  /** The executor's environment variable with the token for `Authorization: Bearer`. */
  readonly bearerTokenEnvVar?: string;
}

/** Finds environments by id. */
export interface EnvironmentFinder {
  get(id: string): Environment | null;
}

/** Opens the transport to an MCP server in its environment. Starting the transport starts a program and connects the environment. */
export async function openMcpTransport(
  environments: EnvironmentFinder,
  server: McpServer,
): Promise<McpTransport> {
  const { environmentId = LOCAL_ENVIRONMENT_ID } = server;
  const environment = environments.get(environmentId);
  if (environment === null) {
    throw new ClientError('config', `there is no environment '${environmentId}' for the MCP server`);
  }
  return openTransportIn(environment, server);
}

/** Opens the transport to an MCP server through a handle. */
export function openTransportIn(environment: Environment, server: McpServer): Promise<McpTransport> {
  return 'url' in server ? httpTransport(environment, server) : programTransport(environment, server);
}

function httpTransport({ http }: Environment, server: McpWebServer): Promise<McpTransport> {
  const fromEnv: HttpRequestHeader[] = Object.entries(server.envHeaders ?? {}).map(([name, valueEnvVar]) => ({
    ...{ name, value: '', valueEnvVar },
  }));
  if (server.bearerTokenEnvVar !== undefined) {
    fromEnv.push({ name: 'authorization', value: 'Bearer ', valueEnvVar: server.bearerTokenEnvVar });
  }
  return openHttpTransport(fetchOver(http, fromEnv), server.url, server.headers);
}

async function programTransport(environment: Environment, server: McpProgramServer): Promise<McpTransport> {
  const { command, args = [], env, envVars, onStderr } = server;
  const cwd = server.cwd ?? (await environment.info()).cwd;
  if (cwd == null) {
    throw new ClientError(
      'config',
      `the MCP server needs a cwd: environment '${environment.id}' reports none`,
    );
  }
  return new McpStdioTransport(environment.backend, {
    ...{ argv: [command, ...args], cwd },
    ...(env && { env }),
    ...(envVars && { envVars }),
    ...(onStderr && { onStderr }),
  });
}
