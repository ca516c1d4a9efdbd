export { type ConnectOptions, connect, ExecServerClient, type UrlOptions } from './browser-client.ts';
export * from './common.ts';
