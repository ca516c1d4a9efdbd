export { type ExecutorOptions, RunningExecutor } from './executor/run-executor.ts';
export { type RemoteEnvironmentConfig, runRemoteEnvironment } from './executor/run-remote-environment.ts';
export { type ForwardTarget, forwardStream } from './forward/forward-stream.ts';
export { connectRemote, type RelayOptions, RelaySource, type RemoteOptions } from './harness/relay-source.ts';
export {
  type AuthHeaders,
  bearerAuth,
  CredentialError,
  type RegistryAuth,
  type TokenAccount,
} from './registry-auth.ts';
export { RegistryError } from './registry-client.ts';
export { type RelayConfig, type RunningRelay, startRelay } from './service/relay.ts';
export type { FileLock } from './service/store/registration-file.ts';
export { CredentialFrames } from './sign-in/credential-frames.ts';
export { type SignInOptions, signIn } from './sign-in/sign-in.ts';
