import { tmpdir } from 'node:os';
import type { EnvironmentInfo } from '../client/backend.ts';
import { Listeners } from '../client/listeners.ts';
import { nativePathOfText } from '../files/native-path.ts';
import { uriFromPath } from '../files/path-uri.ts';
import { loginShell, passwdEntry } from '../process/login-shell.ts';
import { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import type { ConnectionState, Environment, EnvironmentStatus, Readiness } from './environment.ts';
import { fetchOver } from './fetch.ts';
import { LocalConfinement } from './local-confinement.ts';
import { LocalDiscovery } from './local-discovery.ts';
import { closedError } from './local-errors.ts';
import { LocalExecutorFileSystem } from './local-file-system.ts';
import { LocalHttp } from './local-http.ts';
import { LocalBackend } from './local-process.ts';
import { LOCAL_ENVIRONMENT_ID } from './provider.ts';
import { workingDirectory } from './working-directory.ts';

/** This machine as an environment. There is nothing to connect, so it is ready until it is disposed of. */
export class LocalEnvironment implements Environment {
  readonly id = LOCAL_ENVIRONMENT_ID;
  readonly kind = 'local';
  readonly requiredSkills: readonly string[] = [];
  readonly startupFinished = true;
  readonly #spawner = new LazySpawner(true);
  readonly #confinement = new LocalConfinement(this.#spawner);
  readonly #files = new LocalExecutorFileSystem(this.#confinement);
  readonly discovery = new LocalDiscovery(this.#files, this.#confinement);
  readonly #backend = new LocalBackend({
    spawner: this.#spawner,
    files: this.#files,
    confinement: this.#confinement,
  });
  readonly http = new LocalHttp();
  readonly fetch = fetchOver(this.http);
  readonly #listeners = new Listeners<[ConnectionState]>();
  #disposed = false;

  get backend(): LocalBackend {
    return this.#backend;
  }

  get files(): LocalExecutorFileSystem {
    return this.#files;
  }

  get passiveFiles(): LocalExecutorFileSystem {
    return this.#files;
  }

  get readiness(): Readiness {
    return this.#disposed ? { ready: false, error: closedError() } : { ready: true };
  }

  get connection(): ConnectionState {
    return this.#disposed
      ? { connected: false, reason: closedError().message }
      : { connected: true, reason: null };
  }

  watchConnection(listener: (state: ConnectionState) => void): () => void {
    const stop = this.#listeners.add(listener);
    listener(this.connection);
    return stop;
  }

  async info(): Promise<EnvironmentInfo> {
    if (this.#disposed) throw closedError();
    const pty = this.#backend.pty.available;
    const cwd = workingDirectory();
    return {
      shell: loginShell(),
      ...(cwd !== null && { cwd }),
      userHomeDir: uriOf(process.env.HOME || passwdEntry()?.homedir || '/'),
      platformOs: PLATFORM_NAMES[process.platform] ?? process.platform,
      tempDir: uriOf(tmpdir()),
      capabilities: {
        pty,
        processResize: pty,
        processCloseStdin: true,
        processSignals: true,
        processTerminateModes: true,
        processLimits: true,
        shellSnapshotV2: true,
        fileWriteStreaming: true,
        fsRename: true,
        fsAtomicReplace: true,
        fsWatch: true,
        fsSearch: true,
        httpHeaderEnvVars: true,
        capabilityDiscoverySandbox: this.#confinement.usable,
        sandboxedFileStreaming: this.#confinement.usable,
      },
    };
  }

  async status(): Promise<EnvironmentStatus> {
    return this.#disposed
      ? { status: 'disconnected', error: closedError().message }
      : { status: 'ready', error: null };
  }

  startConnecting(): void {}

  startForUse(): void {}

  async waitUntilReady(): Promise<void> {
    if (this.#disposed) throw closedError();
  }

  restart(): Promise<void> {
    return this.waitUntilReady();
  }

  hold(): () => void {
    return () => {};
  }

  /** Kills the processes that are left. */
  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#listeners.emit(this.connection);
    this.http.dispose();
    await this.#files.dispose();
    await this.#backend.dispose();
  }
}

const PLATFORM_NAMES: Readonly<Record<string, string>> = { darwin: 'macos', win32: 'windows' };

function uriOf(path: string): string {
  return uriFromPath(nativePathOfText(path));
}
