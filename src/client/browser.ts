export {
  type ConnectOptions,
  ExecServerClient,
  type TransportOptions,
  type UrlOptions,
} from './browser-client.ts';
export * from './common.ts';
