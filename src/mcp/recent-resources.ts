import type { ToolResource } from '../agent/toolset/index.ts';
import { MAX_LISTED_RESOURCES } from './limits.ts';

/** The resources of the latest results: long outputs and files. Others can be read too, but are not listed. */
export class RecentResources {
  /** By URI, the latest last. */
  readonly #resources = new Map<string, ToolResource>();

  add(resources: readonly ToolResource[]): void {
    for (const resource of resources) {
      this.#resources.delete(resource.uri);
      this.#resources.set(resource.uri, resource);
    }
    for (const uri of this.#resources.keys()) {
      if (this.#resources.size <= MAX_LISTED_RESOURCES) break;
      this.#resources.delete(uri);
    }
  }

  /** The latest first. */
  list(): readonly ToolResource[] {
    return [...this.#resources.values()].reverse();
  }
}
