export { type ConnectOptions, connect, ExecServerClient, type UrlOptions } from './client.ts';
export * from './common.ts';
