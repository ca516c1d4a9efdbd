export { ListenUrlError, parseListenUrl } from '../listener/listen-url.ts';
export { StartError } from '../listener/start-error.ts';
export {
  DEFAULT_CONFIG,
  DEFAULT_LISTEN_URL,
  type ExecServerConfig,
  type ServerSettings,
} from './config/config.ts';
export { ConfigError } from './config/resolve.ts';
export type { DrainStatus, UnfinishedProgram } from './draining.ts';
export { ExecServer } from './exec-server.ts';
export { type RunningServer, runServer, serve, serveStdio } from './serve.ts';
