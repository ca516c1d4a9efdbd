export { type ConnectOptions, connect, ExecServerClient, type UrlOptions } from './client.ts';
export * from './common.ts';
export type { NodeFiles } from './files/node-files.ts';
export type { ForwardOptions, PortForward } from './tcp/port-forward.ts';
export type { TcpTarget } from './tcp/tcp-streams.ts';
