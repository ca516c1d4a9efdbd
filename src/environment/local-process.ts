import { isUtf8 } from 'node:buffer';
import type {
  CallOptions,
  ExecBackend,
  ExecProcess,
  ProcessEvent,
  ProcessState,
  ReadOptions,
  ReadPage,
  StartParams,
  TerminateMode,
  WriteStatus,
} from '../client/backend.ts';
import { checkedParams } from '../client/checked-params.ts';
import { ClientError } from '../client/errors.ts';
import { bytesOf } from '../client/files/file-content.ts';
import { RpcErrorCode } from '../client/files/file-errors.ts';
import { Listeners } from '../client/listeners.ts';
import { ProcessEventLog } from '../client/process/event-log.ts';
import { PathUriError, pathFromUri } from '../files/path-uri.ts';
import { ProcessError } from '../process/errors.ts';
import {
  DEFAULT_CLOSED_RETENTION_MS,
  DEFAULT_HEAD_BYTES,
  DEFAULT_MAX_PROCESSES,
  DEFAULT_RETAINED_BYTES,
  DEFAULT_RETAINED_CHUNKS,
} from '../process/limits.ts';
import type { ManagedProcess, ProcessListener } from '../process/managed-process.ts';
import { ProcessManager } from '../process/process-manager.ts';
import { ioOf, spawnSpecOf } from '../process/program-request.ts';
import { effectiveLimits } from '../process/resources/resource-limits.ts';
import { afterLogin } from '../process/shell-state/after-login.ts';
import { type LoginCommand, loginCommandOf } from '../process/shell-state/login-command.ts';
import { ShellStates } from '../process/shell-state/shell-states.ts';
import { signalNames, signalNumber } from '../process/signals.ts';
import { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import type { Spawner, SpawnSpec, StreamName } from '../process/spawn/spawner.ts';
import type { WrapInSandbox } from '../process/start-program.ts';
import type { ProgramSandbox, SandboxType } from '../sandbox/sandbox-enforcer.ts';
import type { LocalConfinement } from './local-confinement.ts';
import { closedError, locally } from './local-errors.ts';
import type { LocalExecutorFileSystem } from './local-file-system.ts';
import { workingDirectory } from './working-directory.ts';

export interface LocalBackendOptions {
  /** Starts the programs; closed with the backend. By default the best one that this system allows. */
  readonly spawner?: Spawner;
  /** A program sees what was written through these before it was started, whether or not the caller waited for that. */
  readonly files?: LocalExecutorFileSystem;
  /** Confines programs whose start asks for it, and is closed with the backend; without it such a start is refused. */
  readonly confinement?: LocalConfinement;
}

/** Runs programs on this machine, with the rules and the limits of a server. */
export class LocalBackend implements ExecBackend {
  readonly #spawner: Spawner;
  readonly #processes: ProcessManager;
  readonly #shellStates: ShellStates;
  readonly #files: LocalExecutorFileSystem | null;
  readonly #confinement: LocalConfinement | null;
  #closed = false;

  constructor(options: LocalBackendOptions = {}) {
    this.#files = options.files ?? null;
    this.#confinement = options.confinement ?? null;
    this.#spawner = options.spawner ?? new LazySpawner(true);
    this.#shellStates = new ShellStates(this.#spawner);
    this.#processes = new ProcessManager(this.#spawner, {
      maxProcesses: DEFAULT_MAX_PROCESSES,
      closedRetentionMs: DEFAULT_CLOSED_RETENTION_MS,
    });
  }

  /** Whether programs can run on a terminal here; when not, why. */
  get pty(): Spawner['pty'] {
    return this.#spawner.pty;
  }

  async defaultCwd(): Promise<string | null> {
    return workingDirectory();
  }

  /** A start that the caller gives up is undone as soon as it is through. */
  async start(params: StartParams, options: CallOptions = {}): Promise<ExecProcess> {
    const { processId } = params;
    return locally(`the start of ${processId}`, options, async (unwanted) => {
      if (this.#closed) throw closedError();
      const { resources, run: limits } = effectiveLimits(params.limits);
      const { spec: program, login } = localStart(params);
      const spec = { ...program, resources };
      const { sandboxType, wrapInSandbox: confine } = this.#confine(params, spec);
      const wrapInSandbox = login === null ? confine : this.#afterLogin(login, params, confine);
      const process = new LocalProcess(processId, this.#processes, sandboxType);
      await this.#processes.start({
        processId,
        spec,
        wrapInSandbox,
        limits,
        retention: RETENTION,
        listener: process.listener,
        after: this.#files?.changesDone() ?? null,
      });
      await process.attach();
      if (unwanted.aborted) await process.terminate();
      return process;
    });
  }

  /** A login shell that is asked for its state runs in the same sandbox as the command. */
  #afterLogin(
    login: LoginCommand,
    { sandbox = null }: StartParams,
    confine: WrapInSandbox | null,
  ): WrapInSandbox {
    const confinement = { description: sandbox, forShell: confine, forCommand: confine };
    return afterLogin(this.#shellStates, login, confinement);
  }

  #confine(params: StartParams, spec: SpawnSpec): ProgramSandbox {
    const sandbox = 'sandbox' in params ? params.sandbox : null;
    if (sandbox == null) return UNSANDBOXED;
    if (this.#confinement !== null) return this.#confinement.program(sandbox, spec);
    throw new ClientError('server', 'there is no sandbox on this side', {
      code: RpcErrorCode.invalidParams,
      hint: 'send null to do without one',
    });
  }

  /** Kills what is left. Nothing can be started afterwards. What was made for starts that this cuts short is cleared away last. */
  async dispose(): Promise<void> {
    this.#closed = true;
    await this.#processes.close();
    await this.#confinement?.close();
    await this.#spawner.close();
  }
}

const UNSANDBOXED: ProgramSandbox = { sandboxType: 'none', wrapInSandbox: null };

const RETENTION = {
  maxBytes: DEFAULT_RETAINED_BYTES,
  maxChunks: DEFAULT_RETAINED_CHUNKS,
  headBytes: DEFAULT_HEAD_BYTES,
};

/** A program of this machine. */
class LocalProcess implements ExecProcess {
  readonly processId: string;
  readonly sandboxType: SandboxType;
  /** Hears of the process from its first moment on. */
  readonly listener: ProcessListener;
  readonly #processes: ProcessManager;
  readonly #log: ProcessEventLog;
  readonly #wakes = new Listeners<[]>();
  #managed: ManagedProcess | null = null;
  #wake = 0;
  #exitCode: number | null = null;
  #closed = false;
  #writes = 0;

  constructor(processId: string, processes: ProcessManager, sandboxType: SandboxType) {
    this.sandboxType = sandboxType;
    this.processId = processId;
    this.#processes = processes;
    this.#log = new ProcessEventLog((afterSeq, throughSeq) => this.#retainedOutput(afterSeq, throughSeq));
    this.listener = {
      // The bytes are only lent.
      output: (seq, stream, bytes) =>
        this.#tell({ type: 'output', seq, stream, bytes: new Uint8Array(bytes) }),
      exited: (seq, exitCode, _reason, sandboxDenied) => {
        this.#exitCode = exitCode;
        this.#tell({ type: 'exited', seq, exitCode, sandboxDenied });
      },
      closed: (seq) => {
        this.#closed = true;
        this.#tell({ type: 'closed', seq });
      },
    };
  }

  /** To be called once the process exists. */
  async attach(): Promise<void> {
    this.#managed = await this.#processes.get(this.processId);
  }

  get state(): ProcessState {
    return {
      exited: this.#exitCode !== null,
      exitCode: this.#exitCode,
      closed: this.#closed,
      sandboxDenied: this.#managed?.denied ?? false,
      failure: null,
    };
  }

  get revision(): number {
    return this.#wake;
  }

  onChange(listener: () => void): () => void {
    return this.#wakes.add(listener);
  }

  events(options: { readonly signal?: AbortSignal } = {}): AsyncIterableIterator<ProcessEvent> {
    return this.#log.subscribe(options);
  }

  read(options: ReadOptions = {}): Promise<ReadPage> {
    const { afterSeq = 0, maxBytes = null, waitMs = 0 } = options;
    return locally('the read', options, async (unwanted) => {
      const process = await this.#get();
      const page = await process.read({ afterSeq, maxBytes, waitMs }, unwanted, () => {});
      return {
        chunks: page.chunks.map(copied),
        nextSeq: page.nextSeq,
        exited: page.exitCode !== null,
        exitCode: page.exitCode,
        closed: page.closed,
        failure: null,
        sandboxDenied: page.denied,
      };
    });
  }

  write(bytes: Uint8Array | string, options: CallOptions = {}): Promise<WriteStatus> {
    return locally('the write', options, async () => {
      // The caller may use its buffer again while the program has not read it.
      const input = Uint8Array.from(bytesOf(bytes));
      const process = await this.#find();
      return process?.write(input, `local-${++this.#writes}`, () => {}) ?? 'unknownProcess';
    });
  }

  closeStdin(options: CallOptions = {}): Promise<boolean> {
    return locally('closing stdin', options, async () => (await this.#find())?.closeStdin() ?? false);
  }

  signal(name: string, options: CallOptions = {}): Promise<void> {
    return locally('the signal', options, async () => {
      const number = signalNumber(name);
      if (number === null) {
        const known = signalNames().join(', ');
        throw new ProcessError('unknownSignal', `signal: expected "interrupt" or one of ${known}`);
      }
      (await this.#find())?.signal(number);
    });
  }

  resize(rows: number, cols: number, options: CallOptions = {}): Promise<void> {
    return locally('the resize', options, async () => {
      checkedParams('process/resize', { processId: this.processId, rows, cols });
      (await this.#get()).resize(rows, cols);
    });
  }

  terminate(mode: TerminateMode = { type: 'force' }, options: CallOptions = {}): Promise<boolean> {
    return locally('the end', options, async () => (await this.#find())?.terminate(mode) ?? false);
  }

  #tell(event: Extract<ProcessEvent, { readonly seq: number }>): void {
    this.#wake = event.seq;
    this.#log.append(event);
    this.#wakes.emit();
  }

  /** The process while it is readable. Its id may stand for another one later. */
  async #find(): Promise<ManagedProcess | null> {
    const found = await this.#processes.find(this.processId);
    return found === this.#managed ? this.#managed : null;
  }

  async #get(): Promise<ManagedProcess> {
    const process = await this.#find();
    if (process !== null) return process;
    throw new ProcessError('unknownProcess', `unknown process id ${this.processId}`);
  }

  async #retainedOutput(afterSeq: number, throughSeq: number): Promise<OutputEvent[]> {
    const { chunks } = await this.read({ afterSeq });
    return chunks.filter(({ seq }) => seq <= throughSeq).map((chunk) => ({ type: 'output', ...chunk }));
  }
}

type OutputEvent = Extract<ProcessEvent, { readonly type: 'output' }>;

/** The log lends its bytes until the next output. */
function copied(chunk: { readonly seq: number; readonly stream: StreamName; readonly bytes: Uint8Array }) {
  return { seq: chunk.seq, stream: chunk.stream, bytes: new Uint8Array(chunk.bytes) };
}

/**
 * What the operating system is asked to run, and what it is for a login shell whose state may have been captured. Refuses what a
 * server without these abilities refuses.
 */
function localStart(params: StartParams): { readonly spec: SpawnSpec; readonly login: LoginCommand | null } {
  const checked = checkedParams('process/start', params);
  if ('direct' in checked || 'prepared' in checked) {
    throw new ClientError('config', 'only the flat form of a start is understood here', {
      hint: 'give argv, cwd, env and tty themselves',
    });
  }
  if (checked.networkProxy != null || checked.enforceManagedNetwork) {
    throw new ClientError('server', 'there is no network proxy on this side', {
      code: RpcErrorCode.invalidParams,
      hint: 'leave out networkProxy and enforceManagedNetwork to run without one',
    });
  }
  const { argv, arg0, env, envPolicy, metadata } = checked;
  const request = {
    argv,
    arg0,
    env,
    io: ioOf(checked),
    envPolicy: envPolicy ?? null,
    metadata: metadata ?? null,
  };
  const login = loginCommandOf(request, checked.shellSnapshot ?? null);
  return { spec: spawnSpecOf(request, directoryOf(checked.cwd)), login };
}

/** The working directory as text: the system is asked in UTF-8 here. */
function directoryOf(uri: string): string {
  try {
    const bytes = Buffer.from(pathFromUri(uri), 'latin1');
    if (isUtf8(bytes)) return bytes.toString();
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    throw new ClientError('server', `cwd: ${error.message}`, {
      code: RpcErrorCode.invalidParams,
      cause: error,
    });
  }
  throw new ClientError('server', 'cwd: a working directory whose bytes are not UTF-8 is not supported', {
    code: RpcErrorCode.internal,
  });
}
