export { DEFAULT_CONFIG, type ExecServerConfig } from './config/config.ts';
export { DEFAULT_LISTEN_URL, ListenUrlError, parseListenUrl } from './listen/listen-url.ts';
export { ExecServer, type RunningServer, serve, serveStdio } from './serve.ts';
