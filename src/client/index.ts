export { type ConnectOptions, ExecServerClient, type TransportOptions, type UrlOptions } from './client.ts';
export * from './common.ts';
