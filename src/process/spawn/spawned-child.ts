import type { AppliedLimits } from '../resources/resource-limiter.ts';
import type { ProcessTree, TreeKiller } from '../tree/kill-tree.ts';
import type { SandboxedCommand } from '../tree/sandboxed-command.ts';
import type { Child, ExitStatus, InputSink, OutputSource } from './spawner.ts';

/** What a spawner knows of a started program. */
export interface ChildParts {
  readonly tree: ProcessTree;
  readonly outputs: readonly OutputSource[];
  readonly stdin: InputSink | null;
  /** Null for pipes. */
  readonly resize: ((rows: number, cols: number) => void) | null;
  /** Null without resource limits. */
  readonly appliedLimits?: AppliedLimits | null;
  /** Set when the program only contains the command that signals are meant for. */
  readonly command?: SandboxedCommand;
  /** Set when a wrapper got a pipe for its report. */
  readonly report?: WrapperReport | null;
}

/** A started program. The spawner that reaps it reports the exit. */
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
    if (report != null) this.#report ??= this.#readReport(report);
    return this.#report;
  }

  get pid(): number {
    return this.#parts.tree.pid;
  }

  get tree(): ProcessTree {
    return this.#parts.tree;
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

  async waitForTreeExit(): Promise<void> {
    if ((await this.#parts.command?.waitForTreeExit()) !== true) await this.killTree();
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

  /** Must be called in the same turn as the reaping. Listeners run later, each in its own microtask, so they cannot disturb the reaper. */
  exited(waited: ExitStatus): void {
    this.#parts.tree.reaped = true;
    this.#parts.command?.ended();
    const status = this.#parts.appliedLimits?.outOfMemory() ? { ...waited, outOfMemory: true } : waited;
    this.#status = status;
    for (const listener of this.#listeners) queueMicrotask(() => listener(status));
    this.#listeners = [];
  }

  /** Kills the tree of a wrapper that exits without a report: a process it left behind may hold the pipe and wait without end. */
  async #readReport(report: WrapperReport): Promise<number | null> {
    let reported = false;
    this.onExit(() => {
      if (!reported) void this.killTree();
    });
    const first = await report.first;
    reported = true;
    // The sandbox started the process that reports. Its pid can be found now, but not after the sandbox has exited.
    if (first !== null) this.#parts.command?.entered();
    return first;
  }
}

/** The one byte that a wrapper sends before it executes the program. */
export class WrapperReport {
  readonly #source: OutputSource;
  #first: Promise<number | null> | null = null;

  /** Owns the source. */
  constructor(source: OutputSource) {
    this.#source = source;
  }

  /** Null when the pipe closes without a byte. Reading starts on first use, because it keeps the event loop alive. */
  get first(): Promise<number | null> {
    this.#first ??= this.#read();
    return this.#first;
  }

  /** Stops waiting; a report that has not arrived is null. */
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
