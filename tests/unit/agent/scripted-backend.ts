import type {
  CallOptions,
  ExecBackend,
  ExecProcess,
  OutputStream,
  ProcessEvent,
  ProcessState,
  ReadPage,
  SandboxType,
  StartOptions,
  StartParams,
} from '../../../src/client/backend.ts';
import { ClientError } from '../../../src/client/errors.ts';

/** A process whose events the test emits. */
export class ScriptedProcess implements ExecProcess {
  readonly params: StartParams;
  readonly processId: string;
  ref: string | null = null;
  readonly name = null;
  readonly program = null;
  readonly role = 'driver';
  readonly attachedClients = [];
  sandboxType: SandboxType | null = null;
  /** The calls in order. */
  readonly calls: string[] = [];
  /** The failure of a write. */
  writeFailure: Error | null = null;
  signalResult: Error | null = null;
  terminateResult: Error | null = null;
  /** The options of the newest write or signal. */
  lastOptions: CallOptions = {};
  readonly #events: ProcessEvent[] = [];
  readonly #waiting = new Set<() => void>();
  #seq = 0;
  #cut = false;

  constructor(params: StartParams) {
    this.params = params;
    this.processId = params.processId;
  }

  output(bytes: string | Uint8Array, stream: OutputStream = 'stdout'): this {
    return this.#add({ type: 'output', seq: ++this.#seq, stream, bytes: Buffer.from(bytes as string) });
  }

  exit(exitCode: number, sandboxDenied = false): this {
    return this.#add({ type: 'exited', seq: ++this.#seq, exitCode, sandboxDenied });
  }

  close(): this {
    return this.#add({ type: 'closed', seq: ++this.#seq });
  }

  end(exitCode: number): this {
    return this.exit(exitCode).close();
  }

  lose(bytes: number | null): this {
    const seq = ++this.#seq;
    return this.#add({ type: 'lost', fromSeq: seq, toSeq: seq, bytes, streamBytes: null });
  }

  fail(message: string): this {
    return this.#add({ type: 'failed', error: new ClientError('disconnected', message) });
  }

  /** Ends the event stream before the process. */
  cutEvents(): void {
    this.#cut = true;
    this.#wake();
  }

  async *events({ signal }: { readonly signal?: AbortSignal } = {}): AsyncIterableIterator<ProcessEvent> {
    for (let position = 0; ; position++) {
      while (this.#events[position] === undefined) {
        if (this.#cut) return;
        if (signal?.aborted) throw new ClientError('aborted', 'stopped');
        await new Promise<void>((resolve) => {
          this.#waiting.add(resolve);
          signal?.addEventListener('abort', () => resolve(), { once: true });
        });
      }
      const event = this.#events[position]!;
      yield event;
      if (event.type === 'closed' || event.type === 'failed') return;
    }
  }

  async write(bytes: Uint8Array | string, options: CallOptions = {}): Promise<void> {
    this.calls.push(`write ${JSON.stringify(bytes)}`);
    this.lastOptions = options;
    if (this.writeFailure !== null) throw this.writeFailure;
  }

  async signal(name: string, options: CallOptions = {}): Promise<void> {
    this.calls.push(`signal ${name}`);
    this.lastOptions = options;
    if (this.signalResult !== null) throw this.signalResult;
  }

  async terminate(): Promise<boolean> {
    this.calls.push('terminate');
    if (this.terminateResult !== null) throw this.terminateResult;
    return true;
  }

  get state(): ProcessState {
    throw new Error('not used');
  }

  get revision(): number {
    throw new Error('not used');
  }

  onChange(): () => void {
    throw new Error('not used');
  }

  read(): Promise<ReadPage> {
    throw new Error('not used');
  }

  closeStdin(): Promise<boolean> {
    throw new Error('not used');
  }

  resize(): Promise<void> {
    throw new Error('not used');
  }

  kill(): Promise<void> {
    throw new Error('not used');
  }

  wait(): Promise<ProcessState> {
    throw new Error('not used');
  }

  [Symbol.asyncIterator](): AsyncIterator<string> {
    throw new Error('not used');
  }

  [Symbol.asyncDispose](): Promise<void> {
    throw new Error('not used');
  }

  onAttachmentChange(): () => void {
    throw new Error('not used');
  }

  screen(): Promise<never> {
    throw new Error('not used');
  }

  takeOver(): Promise<void> {
    throw new Error('not used');
  }

  keepRunning(): Promise<void> {
    throw new Error('not used');
  }

  async detach(): Promise<void> {
    this.calls.push('detach');
  }

  #add(event: ProcessEvent): this {
    this.#events.push(event);
    this.#wake();
    return this;
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** A backend whose processes the test controls. */
export class ScriptedBackend implements ExecBackend {
  readonly started: ScriptedProcess[] = [];
  /** Called before a process is returned. An exception rejects the start. */
  onStart: (process: ScriptedProcess, options: StartOptions) => void | Promise<void> = () => {};
  /** The options of the newest start. */
  lastOptions: StartOptions = {};

  async start(params: StartParams, options: StartOptions = {}): Promise<ExecProcess> {
    const process = new ScriptedProcess(params);
    this.lastOptions = options;
    this.started.push(process);
    await this.onStart(process, options);
    return process;
  }

  get last(): ScriptedProcess {
    return this.started.at(-1)!;
  }
}
