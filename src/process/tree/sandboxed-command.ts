import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { SANDBOX_EXIT_CHECKS, SWEEP_RETRY_MAX_MS, SWEEP_RETRY_MIN_MS } from '../limits.ts';
import type { ProcessTree } from './kill-tree.ts';
import { listPids, readProcess, trySignal } from './process-table.ts';

/**
 * The command inside a program that contains it: the first child of its first child, and the leader of its own session. The program
 * itself never gets a signal, because it would die of it and take everything along. A signal that comes before the command is
 * there waits for it.
 */
export class SandboxedCommand {
  readonly #tree: ProcessTree;
  /** Signals that wait, each once, in the order of their arrival. */
  readonly #waiting = new Set<number>();
  #retry: NodeJS.Timeout | undefined;
  #retryMs = SWEEP_RETRY_MIN_MS;
  /** The first process inside: all others descend from it, fall to it when their parents end, and end before it does. */
  #init: number | null = null;

  constructor(tree: ProcessTree) {
    this.#tree = tree;
  }

  /** Sends a signal to the command's process group, now or when there is one. False when it is gone. */
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

  /** To be called when the command is known to be there. */
  entered(): void {
    if (!this.#tree.reaped) this.#init = firstChild(this.#tree.pid);
  }

  /**
   * Whether nothing is left inside, once the program has ended and while what it contains does. False when that cannot be told, or
   * something is left for longer than it should be.
   */
  async allGone(): Promise<boolean> {
    if (this.#init === null) return false;
    for (let look = 1; look <= SANDBOX_EXIT_CHECKS; look++) {
      const children = childrenOf(this.#init);
      if (children === '' || (children === null && !existsSync(`/proc/${this.#init}`))) return true;
      await delay(SWEEP_RETRY_MIN_MS);
    }
    return false;
  }

  /** Must be called when the program has been waited for. */
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

  /** The command's pid once it leads a group of its own. It is looked up each time: its number is not ours to keep. */
  #find(): number | null {
    const init = firstChild(this.#tree.pid);
    const command = init === null ? null : firstChild(init);
    return command !== null && readProcess(command)?.group === command ? command : null;
  }
}

/** The child that a process started first, of those that it has. */
function firstChild(pid: number): number | null {
  const children = childrenOf(pid);
  // Some kernels are built without this file.
  return children === null ? oldestChild(pid) : Number.parseInt(children, 10) || null;
}

/** The pids of the children of a process, zombies included, as the kernel lists them; null when it does not. */
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
