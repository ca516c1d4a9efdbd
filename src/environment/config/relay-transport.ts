import type { TransportSource } from '../../client/client-core.ts';
import { RELAY_CONNECT_TIMEOUT_MS } from '../limits.ts';
import type { OpenerTarget } from '../provider.ts';

/** What a configuration says of an environment behind a relay. */
export interface RelaySettings {
  readonly registryUrl: string;
  readonly environmentId: string;
  readonly authToken: string;
  readonly accountId: string | null;
}

/** Reaches the executor of an environment through a relay. The code for that is loaded by the first connection. */
export function relayTransport(settings: RelaySettings): OpenerTarget {
  let source: Promise<TransportSource> | null = null;
  return {
    type: 'opener',
    resumable: true,
    connectTimeoutMs: RELAY_CONNECT_TIMEOUT_MS,
    async open(signal) {
      // One source for all connections: the executor knows a harness by the key that the source has.
      source ??= openSource(settings);
      return (await source).open(signal);
    },
  };
}

async function openSource({ authToken, ...settings }: RelaySettings): Promise<TransportSource> {
  const { RelaySource } = await import('../../relay/harness/relay-source.ts');
  return new RelaySource({ ...settings, auth: authToken });
}
