import type { CallOptions, DiscoveredRoot, DiscoveryRoot } from '../../../../src/client/backend.ts';
import type { ClientError } from '../../../../src/client/errors.ts';
import {
  type SelectedCapabilityRoot,
  selectRoot,
} from '../../../../src/environment/capability-roots/selected-root.ts';
import { EnvironmentManager } from '../../../../src/environment/manager.ts';
import { FakeConnector } from '../fake-connector.ts';

/** A selection of `id` in an environment, with a path derived from the id. */
export function rootIn(environmentId: string, id: string, path = `/roots/${id}`): SelectedCapabilityRoot {
  return selectRoot({ id, environmentId, path });
}

/** The discovery result of a root with one skill. */
export function found({ id, path }: DiscoveryRoot, error: string | null = null): DiscoveredRoot {
  const instructions = { path: `${path}/SKILL.md`, contents: `skill of ${id}` };
  return {
    id,
    path,
    plugin: null,
    skills: [{ instructions, metadata: null }],
    namespaceManifests: [],
    warnings: [],
    error,
  };
}

/** Environments whose connections the test controls. Each `add` creates another handle. */
export class FakeWorld {
  readonly manager = new EnvironmentManager(
    { environments: [], default: null, includeLocal: false },
    { connectorFor: (transport) => this.#connectors.get((transport as { url: string }).url)! },
  );
  readonly #connectors = new Map<string, FakeConnector>();

  /** Registers a new handle under the id and replaces the old one. */
  add(id: string, connector = new FakeConnector()) {
    return { environment: this.manager.add(id, this.#reach(id, connector)), connector };
  }

  /** An environment whose owner reported it ready with these roots. */
  provision(id: string, roots: readonly SelectedCapabilityRoot[], connector: FakeConnector): void {
    this.manager.reportProvisioning(id, this.#reach(id, connector), { status: 'ready', roots });
  }

  #reach(id: string, connector: FakeConnector) {
    const url = `ws://${id}/${this.#connectors.size}`;
    this.#connectors.set(url, connector);
    return { type: 'websocket', url } as const;
  }
}

/** An environment whose discovery results the test sets. It records requests. */
export class FakeDiscoverable {
  readonly id: string;
  readonly requests: (readonly DiscoveryRoot[])[] = [];
  /** The results of the requests, in order. Later requests find everything. */
  answers: ((roots: readonly DiscoveryRoot[]) => readonly DiscoveredRoot[] | ClientError)[] = [];
  /** The failure of `waitUntilReady`; null for success. */
  unready: ClientError | null = null;
  waits = 0;
  readonly infoOptions: CallOptions[] = [];
  capabilities: { capabilityDiscoverySandbox?: boolean } = {};

  constructor(id: string) {
    this.id = id;
  }

  readonly discovery = {
    discover: async (roots: readonly DiscoveryRoot[]) => {
      this.requests.push(roots);
      const answer = this.answers.shift()?.(roots) ?? roots.map((root) => found(root));
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };

  async waitUntilReady(): Promise<void> {
    this.waits++;
    if (this.unready !== null) throw this.unready;
  }

  async info(options: CallOptions = {}) {
    this.infoOptions.push(options);
    return { shell: { name: 'sh', path: '/bin/sh' }, capabilities: this.capabilities };
  }
}
