import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { startReference } from '../../scripts/reference.mjs';
import { startServerProcess } from '../../src/testing/index.ts';
import { childrenOf, isAlive } from '../support/machine.ts';
import { removeFolder } from '../support/remove-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { type CodexOptions, CodexRun } from './codex-client.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { WireTap } from './wire-tap.ts';

/** Which server codex talks to: this project's, or the reference as a control. */
export type ServerKind = 'exec-server' | 'reference';

/** A server behind a tap, the runs of codex against it, and what it started. */
export class World {
  readonly kind: ServerKind;
  readonly tap: WireTap;
  readonly #binary: string;
  readonly #server: StartedServer;
  /** Set in the environment of the server, and so of everything it starts. */
  readonly #mark: string;
  readonly #runs: CodexRun[] = [];

  private constructor(kind: ServerKind, binary: string, server: StartedServer, mark: string, tap: WireTap) {
    this.kind = kind;
    this.#binary = binary;
    this.#server = server;
    this.#mark = mark;
    this.tap = tap;
  }

  static async open(kind: ServerKind, binary: string): Promise<World> {
    const mark = `interop-${randomUUID()}`;
    const server = await START[kind]({ [MARK_VARIABLE]: mark });
    return new World(kind, binary, server, mark, await WireTap.open(server.url));
  }

  /** Starts codex. By default it reaches the server through the tap. */
  async codex(options: Partial<CodexOptions> = {}): Promise<CodexRun> {
    const run = await CodexRun.start({ binary: this.#binary, url: this.tap.url, ...options });
    this.#runs.push(run);
    return run;
  }

  /** The running programs that the server has started, and their descendants. */
  programs(): number[] {
    return markedProcesses(this.#mark).filter((pid) => pid !== this.#server.pid);
  }

  /** Waits until every program that the server started has exited. */
  async noPrograms(): Promise<void> {
    await waitFor('the end of every program', () => this.programs().length === 0);
  }

  /** Ends everything. Fails when the server has died, or when a program outlives it. */
  async close(): Promise<void> {
    const alive = isAlive(this.#server.pid);
    const helpers = childrenOf(this.#server.pid);
    try {
      for (const run of this.#runs) await run.close();
      await this.tap.close();
    } finally {
      await this.#server.stop();
    }
    if (!alive) throw new Error(`the server has ended by itself: ${this.#server.stderr()}`);
    const left = () => [...markedProcesses(this.#mark), ...helpers.filter(isAlive)];
    await waitFor('the end of what the server has started', () => left().length === 0).catch(
      (error: unknown) => {
        for (const pid of left()) process.kill(pid, 'SIGKILL');
        throw error;
      },
    );
  }
}

interface StartedServer {
  readonly url: string;
  readonly pid: number;
  stderr(): string;
  stop(): Promise<void>;
}

const MARK_VARIABLE = 'INTEROP_MARK';

const START: Readonly<Record<ServerKind, (env: Record<string, string>) => Promise<StartedServer>>> = {
  'exec-server': async (env) => {
    const home = temporaryFolder('interop-');
    const removeHome = () => removeFolder(home);
    const server = await startServerProcess([], { ...env, HOME: home }).catch((error: unknown) => {
      removeHome();
      throw error;
    });
    const stop = () => server.close().finally(removeHome);
    return { url: server.url, pid: server.process.pid!, stderr: server.stderr, stop };
  },
  reference: async (env) => {
    const server = await startReference({ env });
    return { url: server.url!, pid: server.pid, stderr: () => '', stop: server.stop };
  },
};

function markedProcesses(mark: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => environmentOf(pid).includes(mark) && isAlive(pid));
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}
