import { Listeners } from '../../base/listeners.ts';
import { randomHex } from '../../base/random-hex.ts';
import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type {
  CallOptions,
  ExecProcess,
  KeepRunningOptions,
  LimitReason,
  ProcessEvent,
  ProcessState,
  ReadOptions,
  ReadPage,
  SandboxType,
  TerminateMode,
  WaitOptions,
} from '../backend.ts';
import { ActivityGroup } from '../connection/activity.ts';
import { CallLimit } from '../connection/call-limit.ts';
import {
  CALL_OPTIONS,
  checkBytes,
  checkDuration,
  checkSeq,
  checkSignal,
  expectContent,
  expectFunction,
  expectOptions,
  expectText,
  type OptionNames,
} from '../connection/option-checks.ts';
import { readPage } from '../connection/server-messages.ts';
import { type Attached, readScreen } from '../connection/sharing-messages.ts';
import { ClientError } from '../errors.ts';
import { END_CHECK_FIRST_MS, QUIET_CHECK_FIRST_MS } from '../limits.ts';
import type { AttachedClient, ProcessAttachment, ProcessScreen } from '../sharing.ts';
import type { Attachment } from './attachment.ts';
import { type Call, catchUp, endsWithOutput } from './catch-up.ts';
import { ProcessEventLog } from './event-log.ts';
import { EventOrder, type OrderedEvent, type SequencedEvent } from './event-order.ts';
import { signalOf } from './exit-signal.ts';
import { MissedEvents } from './missed-events.ts';
import { outputTextOf } from './output.ts';
import {
  cannotFollow,
  hasDetached,
  namingProcess,
  noStdin,
  notWritten,
  shownProcess,
  unsupported,
} from './process-errors.ts';
import { FROM_THE_BEGINNING, type ProcessHost } from './process-host.ts';
import { expectTerminalSize } from './program-checks.ts';
import { eventAfter, failedPage, READ_OPTIONS } from './read-page.ts';
import { readRetained } from './retained-output.ts';
import { wait } from './run.ts';
import { isTimedOut } from './spawn.ts';
import { StdinQueue } from './stdin-queue.ts';
import { expectTerminateMode, terminateSurely } from './terminate.ts';

/**
 * A process on a server, followed across connections: its events are published once and in order, even after lost
 * connections.
 */
export class RemoteProcess implements ExecProcess {
  readonly processId: string;
  readonly #attachment: Attachment;
  readonly #host: ProcessHost;
  readonly #order: EventOrder;
  readonly #log: ProcessEventLog;
  readonly #missed: MissedEvents;
  readonly #stdin: StdinQueue;
  readonly #program: string | null;
  readonly #hasStdin: boolean;
  readonly #startedHere: boolean;
  readonly #changes = new Listeners<[]>('process.onChange');
  /** Readers and listeners, which keep Node running until the process ends. */
  readonly #waits: ActivityGroup;
  #sandboxType: SandboxType | null = null;
  #revision: number;
  #started = false;
  #detached = false;
  #exitCode: number | null;
  #reason: LimitReason | null = null;
  #sandboxDenied = false;
  #closed = false;
  #failure: ClientError | null = null;

  constructor(host: ProcessHost, processId: string, attachment: Attachment, start = FROM_THE_BEGINNING) {
    this.processId = processId;
    this.#host = host;
    this.#attachment = attachment;
    this.#revision = start.afterSeq;
    this.#exitCode = start.exitCode;
    this.#program = start.program ?? null;
    this.#hasStdin = start.hasStdin ?? true;
    this.#waits = new ActivityGroup(host.activity);
    this.#order = new EventOrder((event) => this.#publish(event), start.afterSeq);
    this.#missed = new MissedEvents(this.#order, {
      revision: () => this.#revision,
      read: (allowGaps) => this.catchUp((method, params) => host.call(method, params), allowGaps),
      failed: (error) => {
        this.fail(cannotFollow(this, error));
        // The program must not wait for a client that no longer follows it.
        this.detach().catch(() => {});
      },
    });
    const read = (afterSeq: number) => this.read({ afterSeq });
    this.#log = new ProcessEventLog(
      (afterSeq, toSeq) => readRetained(read, afterSeq, toSeq),
      start,
      () => this.#waits.begin(),
      attachment.flow.join(this, start.afterSeq, (seq) => {
        host.call('process/consumed', { processId, seq }).catch(() => {});
      }),
    );
    this.#startedHere = start.startedHere;
    const idPrefix = start.startedHere ? '' : `${randomHex()}-`;
    this.#stdin = new StdinQueue(processId, () => host.usableLink(), idPrefix);
  }

  get ref(): string | null {
    return this.#attachment.ref;
  }

  get name(): string | null {
    return this.#attachment.name;
  }

  get program(): string | null {
    return this.#program;
  }

  get role(): ProcessAttachment['role'] {
    return this.#detached ? 'none' : this.#attachment.current.role;
  }

  get attachedClients(): readonly AttachedClient[] {
    return this.#attachment.current.attached;
  }

  onAttachmentChange(listener: (attachment: ProcessAttachment) => void): () => void {
    return this.#attachment.onChange(listener);
  }

  get sandboxType(): SandboxType | null {
    return this.#sandboxType;
  }

  get revision(): number {
    return this.#revision;
  }

  get state(): ProcessState {
    return {
      exited: this.#exitCode !== null,
      exitCode: this.#exitCode,
      signal: signalOf(this.#exitCode),
      timedOut: isTimedOut(this),
      reason: this.#reason,
      closed: this.#closed,
      sandboxDenied: this.#sandboxDenied,
      failure: this.#failure,
    };
  }

  onChange(listener: () => void, { unref = false } = {}): () => void {
    expectFunction('listener', listener);
    const remove = this.#changes.add(listener);
    const end = unref ? () => {} : this.#waits.begin();
    return () => {
      remove();
      end();
    };
  }

  events(options: { readonly signal?: AbortSignal } = {}): AsyncIterableIterator<ProcessEvent> {
    expectOptions('process.events', options, { signal: true });
    checkSignal(options.signal);
    return this.#log.subscribe(options);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void> {
    for await (const { text } of outputTextOf(this)) yield text;
  }

  wait(options?: WaitOptions): Promise<ProcessState> {
    return wait(this, options);
  }

  async read(options: ReadOptions = {}): Promise<ReadPage> {
    const { afterSeq = 0, maxBytes, waitMs = 0 } = options;
    expectOptions('process.read', options, READ_OPTIONS);
    checkSeq('afterSeq', afterSeq);
    checkBytes('maxBytes', maxBytes);
    checkDuration('waitMs', waitMs);
    const limit = new CallLimit(`reading the output of ${shownProcess(this)}`, options);
    try {
      limit.signal?.throwIfAborted();
      // Every new event arrives here first, so the server is asked only when there is one.
      if (waitMs > 0) await eventAfter(this, afterSeq, waitMs, limit.signal);
      if (this.#failure !== null) return failedPage(this.#revision, this.#failure);
      const params = {
        processId: this.processId,
        afterSeq,
        ...(maxBytes !== undefined && { maxBytes }),
        waitMs: 0,
        ...(this.#attachment.timed && { withTimes: true }),
      };
      const page = readPage(await this.#call('process/read', params, { signal: limit.signal }));
      // With a byte limit, servers report `closed` even when output follows.
      return { ...page, closed: page.closed && !endsWithOutput(page) };
    } catch (error) {
      limit.signal?.throwIfAborted();
      if (this.#failure !== null) return failedPage(this.#revision, this.#failure);
      throw error;
    } finally {
      limit.end();
    }
  }

  async write(bytes: Uint8Array | string, options: CallOptions = {}): Promise<void> {
    expectContent('bytes', bytes);
    this.#expectUsable('write', options);
    // The server accepts and drops what is written after the end.
    if (this.#closed) throw this.#hasStdin ? notWritten(this, 'stdinClosed') : noStdin(this);
    const input = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes;
    const status = await this.#stdin.write(input, options).catch((error: unknown) => {
      if (error instanceof ClientError && error.kind === 'stdinClosed') return 'stdinClosed';
      throw error;
    });
    if (status === 'accepted') return;
    throw status === 'stdinClosed' && !this.#hasStdin ? noStdin(this) : notWritten(this, status);
  }

  async closeStdin(options: CallOptions = {}): Promise<boolean> {
    this.#expectUsable('closeStdin', options);
    if (!this.#host.capabilities.processCloseStdin) {
      throw unsupported('close stdin', 'on a terminal, write the end-of-file character \\x04 instead');
    }
    return this.#stdin.close(options);
  }

  async signal(name: string, options: CallOptions = {}): Promise<void> {
    this.#expectUsable('signal', options);
    if (name !== 'interrupt' && !this.#host.capabilities.processSignals) {
      throw unsupported(`send ${name}`, 'it supports `interrupt` only');
    }
    expectText('signal', name);
    await this.#call('process/signal', { processId: this.processId, signal: name }, options);
  }

  async resize(rows: number, cols: number, options: CallOptions = {}): Promise<void> {
    this.#expectUsable('resize', options);
    expectTerminalSize(rows, cols);
    if (!this.#host.capabilities.processResize) {
      throw unsupported('resize terminals', 'they keep the size they were started with');
    }
    await this.#call('process/resize', { processId: this.processId, rows, cols }, options);
  }

  async terminate(mode?: TerminateMode, options: CallOptions = {}): Promise<boolean> {
    expectTerminateMode(mode);
    this.#expectUsable('terminate', options);
    if (this.#closed) return false;
    const graceful = mode?.type === 'graceful';
    if (graceful && !this.#host.capabilities.processTerminateModes) {
      throw unsupported(
        'terminate a process gracefully',
        'send a signal first, and terminate the process later',
      );
    }
    const params = { processId: this.processId, ...(graceful && { mode }) };
    return terminateSurely(`terminating ${shownProcess(this)}`, options, (signal) =>
      this.#call('process/terminate', params, { signal }),
    );
  }

  async screen(options: CallOptions = {}): Promise<ProcessScreen> {
    this.#expectUsable('screen', options);
    if (!this.#host.capabilities.processScreen) {
      throw unsupported('show the screen of a terminal', 'read the output of the process instead');
    }
    return readScreen(await this.#call('process/screen', { processId: this.processId }, options));
  }

  async takeOver(options: CallOptions = {}): Promise<void> {
    this.#expectUsable('takeOver', options);
    const { ref } = this;
    if (ref === null)
      throw unsupported('share processes', 'update the server: it lacks the capability processSharing');
    const received = (attached: Attached) => this.#attachment.answered(attached);
    const { connectionParams } = this.#attachment;
    await this.#host.attach({ ref, role: 'driver', takeOver: true, ...connectionParams }, received, options);
  }

  async keepRunning(options: KeepRunningOptions = {}): Promise<void> {
    const { retainMs, ...limits } = options;
    expectOptions('process.keepRunning', options, KEEP_RUNNING_OPTIONS);
    checkDuration('retainMs', retainMs);
    this.#expectUsable('keepRunning', limits);
    if (!this.#host.capabilities.processSetLifetime) {
      throw unsupported(
        'change how long a process lives',
        'start it with the option `detached`, or use a newer server',
      );
    }
    const lifetime = { type: 'detached', ...(retainMs !== undefined && { retainMs }) } as const;
    await this.#call('process/setLifetime', { processId: this.processId, lifetime }, limits);
    this.#attachment.shared = true;
  }

  async detach(options: CallOptions = {}): Promise<void> {
    expectOptions('process.detach', options, CALL_OPTIONS);
    if (this.#detached) return;
    this.#detached = true;
    this.#stopFollowing(hasDetached(this), () => this.#log.end());
    if (this.#closed || this.ref === null || this.#host.unregister(this)) return;
    await this.#host.detach(this, options);
  }

  async kill(signal?: string, options?: CallOptions): Promise<void> {
    // `kill(null)` must not kill.
    if (signal !== undefined) expectText('signal', signal, 'pass its name, such as SIGTERM');
    await (signal === undefined ? this.terminate(undefined, options) : this.signal(signal, options));
  }

  /** A process that can no longer be followed, or whose client is closed, ends with its session. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#failure !== null || (this.#startedHere && this.#attachment.shared)) return;
    await (this.#startedHere ? this.terminate() : this.detach()).catch((error: unknown) => {
      if (this.#failure === null) throw error;
    });
  }

  /** Whether a recovery must catch up with this process. */
  get recoverable(): boolean {
    return this.#started && !this.#closed && this.#failure === null;
  }

  /** Called when the server has started the process. */
  started(sandboxType: SandboxType | null, ref: string | null): void {
    this.#started = true;
    this.#sandboxType = sandboxType;
    this.#attachment.started(ref);
    // The process may have exited or failed before its start was answered.
    if (this.#exitCode === null && this.recoverable) this.#missed.watchQuiet(QUIET_CHECK_FIRST_MS);
  }

  /** Called when the server has attached this client. Reads what happened before. */
  attached(): void {
    this.#started = true;
    this.#missed.watchQuiet(this.#exitCode === null ? QUIET_CHECK_FIRST_MS : END_CHECK_FIRST_MS);
    void this.#missed.readNow();
  }

  /** Stops following a process that the caller no longer wants. */
  abandon(): void {
    this.#started = false;
    this.#order.end();
    this.#missed.stop();
  }

  /** Receives an event in order of arrival. */
  receive(event: SequencedEvent): void {
    if (!this.#order.insert(event)) void this.#missed.readNow();
    else this.#missed.readSoon();
  }

  /** Reads the events that the server does not send because this client reads too slowly. */
  skipped(toSeq: number): void {
    this.#order.skip(toSeq);
    if (this.#order.waiting) void this.#missed.readNow();
  }

  /** Reads the events that were missed. Throws what `call` throws. */
  async catchUp(call: Call, allowGaps = true): Promise<void> {
    const withPosition = this.#host.capabilities.processReadPosition === true;
    const { timed: withTimes } = this.#attachment;
    await catchUp(this.processId, this.#order, call, { withPosition, withTimes, allowGaps });
  }

  /** Ends the process for its readers with an error. Only the first error counts, and none after `closed`. */
  fail(error: ClientError): void {
    this.#stopFollowing(error, () => this.#log.append({ type: 'failed', error }));
  }

  #stopFollowing(error: ClientError, endLog: () => void): void {
    if (this.#closed || this.#failure !== null) return;
    this.#failure = error;
    this.#order.end();
    this.#missed.stop();
    this.#host.unregister(this);
    this.#attachment.flow.leave(this);
    endLog();
    this.#revision++;
    this.#changes.emit();
    this.#waits.end();
  }

  /** Checks the options of a call, and that this handle has not been detached. One that failed can still be terminated. */
  #expectUsable(call: string, options: CallOptions): void {
    expectOptions(`process.${call}`, options, CALL_OPTIONS);
    if (this.#detached && this.#failure?.kind === 'closed') throw hasDetached(this);
  }

  /** Errors name the process as people know it. */
  async #call<M extends Method>(
    method: M,
    params: CallParamsOf<M>,
    options: CallOptions,
  ): Promise<ResultOf<M>> {
    try {
      return await this.#host.call(method, params, options);
    } catch (error) {
      throw namingProcess(error, this);
    }
  }

  #publish(event: OrderedEvent): void {
    if (event.type === 'exited') {
      this.#exitCode = event.exitCode;
      this.#reason = event.reason ?? null;
      this.#sandboxDenied = event.sandboxDenied;
      this.#missed.watchQuiet(END_CHECK_FIRST_MS);
    } else if (event.type === 'closed') {
      this.#closed = true;
      this.#missed.stop();
      this.#leave();
    }
    this.#log.append(event);
    this.#revision = event.type === 'lost' ? event.toSeq : event.seq;
    this.#changes.emit();
    if (this.#closed) this.#waits.end();
  }

  /** Ends the attachment to a process that has closed: the server limits their number. Its output stays readable. */
  #leave(): void {
    if (this.#host.unregister(this) || this.#attachment.own) return;
    this.#host.detach(this).catch(() => {});
  }
}

const KEEP_RUNNING_OPTIONS: OptionNames<KeepRunningOptions> = { ...CALL_OPTIONS, retainMs: true };
