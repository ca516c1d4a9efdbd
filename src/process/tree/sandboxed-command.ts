import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { SANDBOX_EXIT_CHECKS, SWEEP_RETRY_MAX_MS, SWEEP_RETRY_MIN_MS } from '../limits.ts';
import type { ProcessTree } from './kill-tree.ts';
import { listPids, readProcess, trySignal } from './process-table.ts';

/**
 * The command inside a sandbox program such as bwrap: the first child of its first child, and the leader of its own session. The
 * sandbox program never gets a signal, because it would die and take everything with it. A signal that arrives before the command
 * exists waits for it.
 */
export class SandboxedCommand {
  readonly #tree: ProcessTree;
  /** Signals that wait for the command, each once, in the order of their arrival. */
  readonly #waiting = new Set<number>();
  #retry: NodeJS.Timeout | undefined;
  #retryMs = SWEEP_RETRY_MIN_MS;
  /** The init process of the sandbox: all others descend from it, are reparented to it, and end before it does. */
  #init: number | null = null;

  constructor(tree: ProcessTree) {
    this.#tree = tree;
  }

  /** Sends a signal to the command's process group, now or when it exists. False when it is gone. */
  signalGroup(signal: number): boolean {
    if (this.#tree.reaped) return false;
    if (this.#waiting.size === 0) {
      const command = this.#find();
      if (command !== null) return trySignal(-command, signal);
    }
    this.#waiting.add(signal);
    this.#retry ??= setTimeout(() => this.#signalWaiting(), this.#retryMs);
    return true;
  }

  /** Called when the command is known to exist. */
  entered(): void {
    if (!this.#tree.reaped) this.#init = firstChild(this.#tree.pid);
  }

  /**
   * Called after the sandbox program has ended, while the kernel ends what it contained. Resolves to true when nothing is left; to
   * false when that is unknown or something is left for too long.
   */
  async waitForTreeExit(): Promise<boolean> {
    if (this.#init === null) return false;
    for (let check = 1; check <= SANDBOX_EXIT_CHECKS; check++) {
      const children = childrenOf(this.#init);
      if (children === '' || (children === null && !existsSync(`/proc/${this.#init}`))) return true;
      await delay(SWEEP_RETRY_MIN_MS);
    }
    return false;
  }

  /** Must be called when the program has been reaped. */
  ended(): void {
    clearTimeout(this.#retry);
    this.#waiting.clear();
  }

  #signalWaiting(): void {
    this.#retry = undefined;
    const command = this.#find();
    if (command === null) {
      this.#retryMs = Math.min(this.#retryMs * 2, SWEEP_RETRY_MAX_MS);
      this.#retry = setTimeout(() => this.#signalWaiting(), this.#retryMs);
      return;
    }
    for (const signal of this.#waiting) trySignal(-command, signal);
    this.#waiting.clear();
  }

  /** The command's pid once it leads its own group. Looked up each time, because the pid can be reused. */
  #find(): number | null {
    const init = firstChild(this.#tree.pid);
    const command = init === null ? null : firstChild(init);
    return command !== null && readProcess(command)?.group === command ? command : null;
  }
}

/** The oldest child of a process that still exists. */
function firstChild(pid: number): number | null {
  const children = childrenOf(pid);
  // Some kernels are built without this file.
  return children === null ? oldestChild(pid) : Number.parseInt(children, 10) || null;
}

/** The pids of the children of a process, including zombies, as the kernel lists them; null where it does not. */
function childrenOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
  } catch {
    return null;
  }
}

function oldestChild(parent: number): number | null {
  const children = listPids()
    .map(readProcess)
    .filter((row) => row?.parent === parent);
  const [oldest] = children.sort((a, b) => Number(a!.startTime) - Number(b!.startTime));
  return oldest?.pid ?? null;
}
