import { obstacleToNative } from './native-obstacles.ts';
import type { Child, Spawner, SpawnSpec } from './spawner.ts';

/**
 * The best spawner this system allows, loaded when it is first needed: loading native code takes longer than everything else a
 * server does before its first answer.
 */
export class LazySpawner implements Spawner {
  readonly #native: boolean;
  #loading: Promise<Spawner> | null = null;
  #loaded: Spawner | null = null;

  constructor(native: boolean) {
    this.#native = native;
  }

  /** Before loading it is a prediction, which holds unless the native library is missing or broken. */
  get pty(): Spawner['pty'] {
    if (this.#loaded !== null) return this.#loaded.pty;
    const obstacle = obstacleToNative(this.#native);
    return obstacle === null ? { available: true } : { available: false, reason: obstacle };
  }

  /** Loads now, so that the first start need not wait for it. */
  prepare(): Promise<Spawner> {
    this.#loading ??= this.#load();
    return this.#loading;
  }

  async spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child> {
    const spawner = this.#loaded ?? (await this.prepare());
    return spawner.spawn(spec, signal);
  }

  async close(): Promise<void> {
    const spawner = await this.#loading;
    await spawner?.close();
  }

  async #load(): Promise<Spawner> {
    const { createSpawner } = await import('./create-spawner.ts');
    this.#loaded = await createSpawner({ native: this.#native });
    return this.#loaded;
  }
}
