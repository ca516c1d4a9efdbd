import type { ListenAddress } from '../listener/listen-url.ts';
import { refuseUnsafeStart } from './auth/start-refusal.ts';
import type { ExecServerConfig } from './config/config.ts';
import { refuseBadHosts } from './sessions/connection-http.ts';
import { refuseUnenforceableLimits } from './sessions/limit-refusal.ts';

/** Rejects with StartError for settings that could not be served: better no server than one that refuses everything, or allows it. */
export async function checkStart(config: ExecServerConfig, address: ListenAddress): Promise<void> {
  refuseUnsafeStart(config, address);
  await refuseUnenforceableLimits(config);
  await refuseBadHosts(config);
}
