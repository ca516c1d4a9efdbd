export { ListenUrlError, parseListenUrl } from '../listener/listen-url.ts';
export { DEFAULT_CONFIG, DEFAULT_LISTEN_URL, type ExecServerConfig } from './config/config.ts';
export { ExecServer, type RunningServer, serve, serveStdio } from './serve.ts';
