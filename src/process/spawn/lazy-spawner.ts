import { nativeUnavailableReason } from '../../native/native-support.ts';
import { type Child, SpawnError, type Spawner, type SpawnSpec } from './spawner.ts';

/**
 * The best spawner this system allows, loaded when it is first needed: loading native code takes longer than everything else a
 * server does before its first answer.
 */
export class LazySpawner implements Spawner {
  readonly #native: boolean;
  readonly #protectServer: boolean;
  #loading: Promise<Spawner> | null = null;
  #loaded: Spawner | null = null;
  #closed = false;

  /** `protectServer` keeps the memory of this process from the programs that it starts, where the system allows it. */
  constructor(native: boolean, protectServer = false) {
    this.#native = native;
    this.#protectServer = protectServer;
  }

  /** Before loading it is a prediction, which holds unless the native library is missing or broken. */
  get pty(): Spawner['pty'] {
    if (this.#loaded !== null) return this.#loaded.pty;
    const obstacle = nativeUnavailableReason(this.#native);
    return obstacle === null ? { available: true } : { available: false, reason: obstacle };
  }

  /** Loads now, so that the first start need not wait for it. Rejects with SpawnError once closed. */
  prepare(): Promise<Spawner> {
    if (this.#closed) return Promise.reject(new SpawnError('ECANCELED', 'the server is shutting down'));
    this.#loading ??= this.#load();
    return this.#loading;
  }

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
    this.#loaded = await createSpawner({ native: this.#native, protectServer: this.#protectServer });
    return this.#loaded;
  }
}
