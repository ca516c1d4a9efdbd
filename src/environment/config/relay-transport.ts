import type { TransportSource } from '../../client/connection/session-options.ts';
import type { RelayOptions } from '../../relay/harness/relay-source.ts';
import { RELAY_CONNECT_TIMEOUT_MS } from '../limits.ts';
import type { OpenerTarget } from '../provider.ts';

/** The configuration of an environment behind a relay. */
export interface RelaySettings {
  readonly registryUrl: string;
  readonly environmentId: string;
  readonly authToken: string;
  readonly accountId: string | null;
  /** TLS options for the relay. Default: what Node trusts. */
  readonly tls?: NonNullable<RelayOptions['tls']>;
}

/** Connects to the executor of an environment through a relay. The first connection loads the relay code. */
export function relayTransport(settings: RelaySettings): OpenerTarget {
  let source: Promise<TransportSource> | null = null;
  return {
    type: 'opener',
    resumable: true,
    connectTimeoutMs: RELAY_CONNECT_TIMEOUT_MS,
    async open(signal) {
      // One source for all connections: the executor identifies a harness by the key of the source.
      source ??= openSource(settings);
      return (await source).open(signal);
    },
  };
}

async function openSource({ authToken, ...settings }: RelaySettings): Promise<TransportSource> {
  const { RelaySource } = await import('../../relay/harness/relay-source.ts');
  return new RelaySource({ ...settings, auth: authToken });
}
