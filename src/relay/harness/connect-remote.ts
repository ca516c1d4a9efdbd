import { ExecServerClient } from '../../client/client.ts';
import type { SessionOptions } from '../../client/client-core.ts';
import { HARNESS_CONNECT_TIMEOUT_MS } from '../limits.ts';
import { type RelayOptions, RelaySource } from './relay-source.ts';

/** Which environment to reach, and how the session is to be. */
export interface RemoteOptions extends RelayOptions, SessionOptions {}

/** Opens a session with the executor of an environment, through a relay that cannot read it. Rejects with a ClientError. */
export function connectRemote(options: RemoteOptions): Promise<ExecServerClient> {
  const source = new RelaySource(options);
  return ExecServerClient.connect({
    connectTimeoutMs: HARNESS_CONNECT_TIMEOUT_MS,
    ...options,
    open: (signal) => source.open(signal),
    resumable: true,
  });
}
