import type {
  Child,
  ExitStatus,
  InputSink,
  OutputSource,
  Spawner,
  SpawnSpec,
  StreamName,
} from '../../../src/process/spawn/spawner.ts';

/** A stream whose content the test controls. Writes wait while it is paused, as in a pipe. */
export class FakeSource implements OutputSource {
  readonly name: StreamName;
  paused = true;
  destroyed = false;
  answersExpected = 0;
  #waiting: (Buffer | null)[] = [];
  #ended = false;
  #drained: () => void = () => {};
  #onChunk: (bytes: Buffer) => void = () => {};
  #onEnd: () => void = () => {};

  constructor(name: StreamName) {
    this.name = name;
  }

  listen(onChunk: (bytes: Buffer) => void, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.#deliver();
  }

  expectReply(): void {
    this.answersExpected++;
  }

  drainReadable(done: () => void, whilePaused = false): void {
    this.#drained = done;
    while (whilePaused && this.#waiting[0] instanceof Buffer) this.#onChunk(this.#waiting.shift() as Buffer);
    this.#reportDrained();
  }

  destroy(): void {
    this.destroyed = true;
    this.#waiting = [null];
    this.paused = false;
    this.#deliver();
  }

  /** The program writes. */
  write(text: string | Buffer): void {
    this.#waiting.push(Buffer.from(text));
    this.#deliver();
  }

  /** The last writer closes the stream. */
  end(): void {
    this.#waiting.push(null);
    this.#deliver();
  }

  #deliver(): void {
    while (!this.paused && !this.#ended && this.#waiting.length > 0) {
      const next = this.#waiting.shift()!;
      if (next !== null) {
        this.#onChunk(next);
        // The bytes are valid only during the call.
        next.fill(0);
      } else {
        this.#ended = true;
        this.#onEnd();
      }
    }
    this.#reportDrained();
  }

  #reportDrained(): void {
    if (this.#waiting.some((each) => each !== null)) return;
    const done = this.#drained;
    this.#drained = () => {};
    done();
  }
}

/** A stdin that the test reads. */
export class FakeSink implements InputSink {
  readonly written: string[] = [];
  ended = false;
  destroyed = false;
  #pending: { readonly bytes: Uint8Array; readonly done: (error: Error | null) => void }[] = [];

  write(bytes: Uint8Array, done: (error: Error | null) => void): void {
    if (this.destroyed) queueMicrotask(() => done(new Error('EPIPE')));
    else this.#pending.push({ bytes, done });
  }

  end(): void {
    this.ended = true;
  }

  destroy(): void {
    this.destroyed = true;
    for (const { done } of this.#pending.splice(0)) queueMicrotask(() => done(new Error('EPIPE')));
  }

  get waiting(): number {
    return this.#pending.length;
  }

  /** The program reads this many writes. */
  read(count: number): void {
    for (const { bytes, done } of this.#pending.splice(0, count)) {
      this.written.push(Buffer.from(bytes).toString());
      done(null);
    }
  }
}

/** A program that the test controls. `killTree` kills it unless it is `immortal`. */
export class FakeChild implements Child {
  readonly pid = 1;
  readonly tree = { pid: 1, tag: null, reaped: false };
  readonly outputs: readonly FakeSource[];
  readonly stdin: FakeSink | null;
  readonly signals: number[] = [];
  readonly sizes: [number, number][] = [];
  killed = 0;
  released = 0;
  /** What happens when the tree is killed; by default the program dies and its streams end. */
  onKill: () => void = () => {
    this.exit({ code: null, signal: 9 });
    this.endStreams();
  };
  #exitListeners: ((status: ExitStatus) => void)[] = [];
  #status: ExitStatus | null = null;

  constructor(options: { streams?: readonly StreamName[]; stdin?: boolean } = {}) {
    this.outputs = (options.streams ?? ['stdout', 'stderr']).map((name) => new FakeSource(name));
    this.stdin = options.stdin === true ? new FakeSink() : null;
  }

  get stdout(): FakeSource {
    return this.outputs[0]!;
  }

  get stderr(): FakeSource {
    return this.outputs[1]!;
  }

  onExit(listener: (status: ExitStatus) => void): void {
    const status = this.#status;
    if (status === null) this.#exitListeners.push(listener);
    else queueMicrotask(() => listener(status));
  }

  signalGroup(signal: number): boolean {
    this.signals.push(signal);
    return this.#status === null;
  }

  readonly report: Promise<number | null> | null = null;

  async waitForTreeExit(): Promise<void> {
    await this.killTree();
  }

  async killTree(): Promise<void> {
    this.killed++;
    this.onKill();
  }

  resize(rows: number, cols: number): void {
    this.sizes.push([rows, cols]);
  }

  release(): void {
    this.released++;
  }

  exit(status: ExitStatus | number = 0): void {
    if (this.#status !== null) return;
    this.#status = typeof status === 'number' ? { code: status, signal: null } : status;
    for (const listener of this.#exitListeners.splice(0)) listener(this.#status);
  }

  endStreams(): void {
    for (const source of this.outputs) source.end();
  }

  /** The program exits and all of its streams end. */
  finish(code = 0): void {
    this.endStreams();
    this.exit(code);
  }
}

/** A spawner whose starts succeed or fail as the test decides. */
export class FakeSpawner implements Spawner {
  readonly pty = { available: true } as const;
  readonly starts: PendingStart[] = [];

  spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child> {
    return new Promise((resolve, reject) => this.starts.push({ spec, signal, resolve, reject }));
  }

  async close(): Promise<void> {}

  /** Makes the latest start succeed. */
  succeed(child = new FakeChild()): FakeChild {
    this.starts.at(-1)!.resolve(child);
    return child;
  }
}

export interface PendingStart {
  readonly spec: SpawnSpec;
  readonly signal: AbortSignal | undefined;
  resolve(child: Child): void;
  reject(error: Error): void;
}
