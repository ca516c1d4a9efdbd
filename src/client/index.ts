export { type ConnectOptions, ExecServerClient, type TransportOptions, type UrlOptions } from './client.ts';
export * from './common.ts';
export { NodeFiles } from './files/node-files.ts';
export {
  type SkippedPath,
  TransferError,
  type TransferOptions,
  type TransferProgress,
  type TransferResult,
} from './files/transfer/transfer.ts';
