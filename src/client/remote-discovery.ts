import type { CallParamsOf, ResultOf } from '../protocol/registry.ts';
import type { CallOptions, CapabilityDiscovery, DiscoveredRoot, DiscoveryRoot } from './backend.ts';
import { protocolError } from './connection/server-messages.ts';

/** The part of a client that discovery needs. */
interface Caller {
  call(
    method: typeof METHOD,
    params: CallParamsOf<typeof METHOD>,
    options?: CallOptions,
  ): Promise<ResultOf<typeof METHOD>>;
}

const METHOD = 'capabilityRoots/discoverV1';

/** Discovers capability roots on a server. */
export class RemoteDiscovery implements CapabilityDiscovery {
  readonly #client: Caller;

  constructor(client: Caller) {
    this.#client = client;
  }

  async discover(roots: readonly DiscoveryRoot[], options?: CallOptions): Promise<readonly DiscoveredRoot[]> {
    const answer: { roots?: unknown } | null = await this.#client.call(
      METHOD,
      { roots: [...roots] },
      options,
    );
    const found = answer?.roots;
    if (!Array.isArray(found) || !found.every(isDiscoveredRoot)) {
      throw protocolError('malformed capability roots');
    }
    return found;
  }
}

function isDiscoveredRoot(value: unknown): value is DiscoveredRoot {
  const root = members(value);
  return (
    typeof root.id === 'string' &&
    typeof root.path === 'string' &&
    isListOf(root.skills, isSkill) &&
    isListOf(root.namespaceManifests, isFile) &&
    isListOf(root.warnings, (warning) => typeof warning === 'string') &&
    (root.plugin === null || isPlugin(root.plugin)) &&
    (root.error === null || typeof root.error === 'string')
  );
}

function isPlugin(value: unknown): boolean {
  const { manifest, mcpConfig, appsConfig } = members(value);
  return isFile(manifest) && isFileOrNull(mcpConfig) && isFileOrNull(appsConfig);
}

function isSkill(value: unknown): boolean {
  const { instructions, metadata } = members(value);
  return isFile(instructions) && isFileOrNull(metadata);
}

function isFileOrNull(value: unknown): boolean {
  return value === null || isFile(value);
}

function isFile(value: unknown): boolean {
  const { path, contents } = members(value);
  return typeof path === 'string' && typeof contents === 'string';
}

function isListOf(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem);
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
