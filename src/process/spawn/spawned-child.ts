import type { AppliedLimits } from '../resources/resource-limiter.ts';
import type { ProcessTree, TreeKiller } from '../tree/kill-tree.ts';
import type { SandboxedCommand } from '../tree/sandboxed-command.ts';
import type { Child, ExitStatus, InputSink, OutputSource } from './spawner.ts';

/** What a spawner has in hand once the program runs. */
export interface ChildParts {
  readonly tree: ProcessTree;
  readonly outputs: readonly OutputSource[];
  readonly stdin: InputSink | null;
  /** Null for pipes. */
  readonly resize: ((rows: number, cols: number) => void) | null;
  /** Null when nothing is limited. */
  readonly appliedLimits?: AppliedLimits | null;
  /** Set when the program only contains the command that signals are meant for. */
  readonly command?: SandboxedCommand;
  /** Set when a wrapper was given a pipe to say something through. */
  readonly report?: WrapperReport | null;
}

/** A started program, told of its exit by the spawner that reaps it. */
export class SpawnedChild implements Child {
  readonly #parts: ChildParts;
  readonly #killer: TreeKiller;
  readonly #onRelease: () => void;
  #report: Promise<number | null> | null = null;
  #listeners: ((status: ExitStatus) => void)[] = [];
  #status: ExitStatus | null = null;

  constructor(parts: ChildParts, killer: TreeKiller, onRelease: () => void) {
    this.#parts = parts;
    this.#killer = killer;
    this.#onRelease = onRelease;
  }

  get report(): Promise<number | null> | null {
    const { report } = this.#parts;
    if (report != null) this.#report ??= this.#hear(report);
    return this.#report;
  }

  get pid(): number {
    return this.#parts.tree.pid;
  }

  get outputs(): readonly OutputSource[] {
    return this.#parts.outputs;
  }

  get stdin(): InputSink | null {
    return this.#parts.stdin;
  }

  onExit(listener: (status: ExitStatus) => void): void {
    const status = this.#status;
    if (status === null) this.#listeners.push(listener);
    else queueMicrotask(() => listener(status));
  }

  signalGroup(signal: number): boolean {
    const { command, tree } = this.#parts;
    return command === undefined ? this.#killer.signalGroup(tree, signal) : command.signalGroup(signal);
  }

  killTree(): Promise<void> {
    return this.#killer.kill(this.#parts.tree);
  }

  async allGone(): Promise<void> {
    if ((await this.#parts.command?.allGone()) !== true) await this.killTree();
  }

  resize(rows: number, cols: number): void {
    if (this.#parts.resize === null) throw new Error('the process has no terminal');
    this.#parts.resize(rows, cols);
  }

  release(): void {
    for (const output of this.outputs) output.destroy();
    this.stdin?.destroy();
    this.#parts.report?.discard();
    this.#parts.appliedLimits?.release();
    this.#onRelease();
  }

  /** Must be called in the same turn as the reaping. Listeners run after it, each on its own, so none can disturb the reaper. */
  exited(waited: ExitStatus): void {
    this.#parts.tree.reaped = true;
    this.#parts.command?.ended();
    const status = this.#parts.appliedLimits?.outOfMemory() ? { ...waited, outOfMemory: true } : waited;
    this.#status = status;
    for (const listener of this.#listeners) queueMicrotask(() => listener(status));
    this.#listeners = [];
  }

  /** A wrapper that was killed before it had contained anything may leave a process that has its pipe and waits for it for ever. */
  async #hear(report: WrapperReport): Promise<number | null> {
    let heard = false;
    this.onExit(() => {
      if (!heard) void this.killTree();
    });
    const first = await report.first;
    heard = true;
    // Who reports has been started by what contains it, which can be told from it now and not any more once that has exited.
    if (first !== null) this.#parts.command?.entered();
    return first;
  }
}

/** What a wrapper says, in one byte, before it executes the program that it was given. */
export class WrapperReport {
  readonly #source: OutputSource;
  #first: Promise<number | null> | null = null;

  /** Owns the source. */
  constructor(source: OutputSource) {
    this.#source = source;
  }

  /**
   * Null when the pipe was closed without a byte. Nothing is read before this is asked for, because a pipe that is read keeps the event
   * loop alive.
   */
  get first(): Promise<number | null> {
    this.#first ??= this.#read();
    return this.#first;
  }

  /** Nobody waits any more; the report that has not come is null. */
  discard(): void {
    this.#first ??= Promise.resolve(null);
    this.#source.destroy();
  }

  async #read(): Promise<number | null> {
    const first = await new Promise<number | null>((resolve) => {
      this.#source.listen(
        (bytes) => resolve(bytes[0] ?? null),
        () => resolve(null),
      );
      this.#source.resume();
    });
    this.#source.destroy();
    return first;
  }
}
