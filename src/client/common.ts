// What the client is made of, wherever it runs; the entries add the way it connects.

export { activeTrace } from './active-trace.ts';
export type { ClientState, SessionOptions, TransportSource } from './client-core.ts';
export { ClientError, type ClientErrorDetails, type ClientErrorKind } from './errors.ts';
export {
  type CollectOptions,
  communicate,
  type Outcome,
  type RunOptions,
  run,
  wait,
} from './helpers.ts';
export type * from './interfaces.ts';
export {
  type OutputBytes,
  type OutputOptions,
  type OutputText,
  outputOf,
  outputTextOf,
} from './output-text.ts';
export type { PolicyHandler, PolicyQuestion } from './policy-answers.ts';
export { type FileCaller, RemoteFileSystem } from './remote-file-system.ts';
export type { TraceContext, TraceSource } from './trace.ts';
export type { Capabilities } from './wire.ts';
