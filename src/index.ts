// What most programs import first. Everything else has an entry of its own: `exec-server/server`, `exec-server/environment`,
// `exec-server/agent`, `exec-server/relay`, `exec-server/protocol`, `exec-server/testing`.
import type { ExecServerConfig, ServerSettings } from './server/config/config.ts';
import type { RunningServer } from './server/serve.ts';

export * from './client/index.ts';
export { type StdioCommandOptions, stdioCommand } from './client/stdio.ts';
export type { Environment } from './environment/environment.ts';
export { LocalEnvironment } from './environment/local-environment.ts';
export { EnvironmentManager, type ManagerOptions } from './environment/manager.ts';
export { StartError } from './listener/start-error.ts';
export { ConfigError } from './server/config/resolve.ts';
export type { RunningServer, ServerSettings };

/** Runs a server like the program `exec-server`; see `exec-server/server`. The first call loads the server. */
export async function runServer(settings?: ServerSettings): Promise<RunningServer> {
  const server = await import('./server/serve.ts');
  return await server.runServer(settings);
}

/** Serves on the configured address; see `exec-server/server`. The first call loads the server. */
export async function serve(config: ExecServerConfig): Promise<RunningServer> {
  const server = await import('./server/serve.ts');
  return await server.serve(config);
}
