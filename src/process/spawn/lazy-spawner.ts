import { nativeUnavailableReason } from '../../native/native-support.ts';
import type { SpawnerOptions } from './create-spawner.ts';
import { type Child, SpawnError, type Spawner, type SpawnSpec } from './spawner.ts';

/**
 * The best spawner for this system, loaded on first use: loading native code takes longer than everything else that a server does
 * before its first response.
 */
export class LazySpawner implements Spawner {
  readonly #options: SpawnerOptions;
  #loading: Promise<Spawner> | null = null;
  #loaded: Spawner | null = null;
  #closed = false;

  constructor(options: SpawnerOptions = {}) {
    this.#options = options;
  }

  /** A prediction until the spawner is loaded. It holds unless the native library is missing or broken. */
  get pty(): Spawner['pty'] {
    if (this.#loaded !== null) return this.#loaded.pty;
    const unavailableReason = nativeUnavailableReason(this.#options.native ?? true);
    return unavailableReason === null ? { available: true } : { available: false, reason: unavailableReason };
  }

  /** Loads the spawner ahead of the first start. Rejects with SpawnError once closed. */
  prepare(): Promise<Spawner> {
    if (this.#closed) return Promise.reject(new SpawnError('ECANCELED', 'the server is shutting down'));
    this.#loading ??= this.#load();
    return this.#loading;
  }

  /** Null before the first program is started. */
  readonly readTag = (pid: number): bigint | null => this.#loaded?.readTag?.(pid) ?? null;

  async spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child> {
    const spawner = await this.prepare();
    return spawner.spawn(spec, signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const spawner = await this.#loading;
    await spawner?.close();
  }

  async #load(): Promise<Spawner> {
    const { createSpawner } = await import('./create-spawner.ts');
    this.#loaded = await createSpawner(this.#options);
    return this.#loaded;
  }
}
