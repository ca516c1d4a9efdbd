import { Listeners } from '../../base/listeners.ts';
import { randomHex } from '../../base/random-hex.ts';
import type {
  CallOptions,
  ExecProcess,
  ProcessEvent,
  ProcessState,
  ReadOptions,
  ReadPage,
  SandboxType,
  TerminateMode,
  WaitOptions,
  WriteStatus,
} from '../backend.ts';
import { ActivityGroup } from '../connection/activity.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { readPage, readRunning } from '../connection/server-messages.ts';
import { type Attached, readScreen } from '../connection/sharing-messages.ts';
import { ClientError } from '../errors.ts';
import {
  END_CHECK_FIRST_MS,
  MAX_RETRIES,
  MISSING_EVENT_DELAY_MS,
  QUIET_CHECK_FIRST_MS,
  QUIET_CHECK_MAX_MS,
} from '../limits.ts';
import type { AttachedClient, ProcessAttachment, ProcessScreen } from '../sharing.ts';
import type { Attachment } from './attachment.ts';
import { type Call, catchUp, endsWithOutput } from './catch-up.ts';
import { ProcessEventLog } from './event-log.ts';
import { EventOrder, type OrderedEvent, type SequencedEvent } from './event-order.ts';
import { outputTextOf } from './output.ts';
import { cannotFollow, noStdin, unsupported } from './process-errors.ts';
import { FROM_THE_BEGINNING, type ProcessHost } from './process-host.ts';
import { eventAfter, failedPage } from './read-page.ts';
import { isLost, maySucceedLater, readRetained } from './retained-output.ts';
import { wait } from './run.ts';
import { StdinQueue } from './stdin-queue.ts';

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
  readonly #stdin: StdinQueue;
  readonly #hasStdin: boolean;
  readonly #startedHere: boolean;
  readonly #changes = new Listeners<[]>();
  /** Readers and listeners, which keep Node running until the process ends. */
  readonly #waits: ActivityGroup;
  #sandboxType: SandboxType | null = null;
  #revision: number;
  #started = false;
  #detached = false;
  #exitCode: number | null;
  #sandboxDenied = false;
  #closed = false;
  #failure: ClientError | null = null;
  #missingTimer: ReturnType<typeof setTimeout> | undefined;
  #quietTimer: ReturnType<typeof setTimeout> | undefined;
  #catchingUp = false;

  constructor(host: ProcessHost, processId: string, attachment: Attachment, start = FROM_THE_BEGINNING) {
    this.processId = processId;
    this.#host = host;
    this.#attachment = attachment;
    this.#revision = start.afterSeq;
    this.#exitCode = start.exitCode;
    this.#hasStdin = start.hasStdin ?? true;
    this.#waits = new ActivityGroup(host.activity);
    this.#order = new EventOrder((event) => this.#publish(event), start.afterSeq);
    const read = (afterSeq: number) => this.read({ afterSeq });
    this.#log = new ProcessEventLog(
      (afterSeq, toSeq) => readRetained(read, afterSeq, toSeq),
      start,
      () => this.#waits.begin(),
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
      closed: this.#closed,
      sandboxDenied: this.#sandboxDenied,
      failure: this.#failure,
    };
  }

  onChange(listener: () => void): () => void {
    const remove = this.#changes.add(listener);
    const end = this.#waits.begin();
    return () => {
      remove();
      end();
    };
  }

  events(options: { readonly signal?: AbortSignal } = {}): AsyncIterableIterator<ProcessEvent> {
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
    const limit = new CallLimit('process/read', options);
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
      };
      const page = readPage(await this.#host.call('process/read', params, { signal: limit.signal }));
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

  async write(bytes: Uint8Array | string, options: CallOptions = {}): Promise<WriteStatus> {
    const input = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes;
    const status = await this.#stdin.write(input, options);
    if (status === 'stdinClosed' && !this.#hasStdin) throw noStdin(this.processId);
    return status;
  }

  async closeStdin(options: CallOptions = {}): Promise<boolean> {
    if (!this.#host.capabilities.processCloseStdin) {
      throw unsupported('close stdin', 'on a terminal, write the end-of-file character \\x04 instead');
    }
    return this.#stdin.close(options);
  }

  async signal(name: string, options: CallOptions = {}): Promise<void> {
    if (name !== 'interrupt' && !this.#host.capabilities.processSignals) {
      throw unsupported(`send ${name}`, 'it supports `interrupt` only');
    }
    await this.#host.call('process/signal', { processId: this.processId, signal: name }, options);
  }

  async resize(rows: number, cols: number, options: CallOptions = {}): Promise<void> {
    if (!this.#host.capabilities.processResize) {
      throw unsupported('resize terminals', 'they keep the size they were started with');
    }
    await this.#host.call('process/resize', { processId: this.processId, rows, cols }, options);
  }

  /**
   * Retries when the answer was lost: otherwise the program might keep running, and terminating twice does no harm.
   */
  async terminate(mode?: TerminateMode, options: CallOptions = {}): Promise<boolean> {
    if (this.#closed) return false;
    const graceful = mode?.type === 'graceful';
    if (graceful && !this.#host.capabilities.processTerminateModes) {
      throw unsupported(
        'terminate a process gracefully',
        'send a signal first, and terminate the process later',
      );
    }
    const params = { processId: this.processId, ...(graceful && { mode }) };
    const limit = new CallLimit('`process/terminate`', options);
    try {
      for (let repeats = 0; ; repeats++) {
        try {
          const result = await this.#host.call('process/terminate', params, { signal: limit.signal });
          // A process that a retry finds ended was ended by the attempt whose answer was lost.
          return readRunning(result) || repeats > 0;
        } catch (error) {
          limit.signal?.throwIfAborted();
          if (!isLost(error) || repeats === MAX_RETRIES) throw error;
        }
      }
    } finally {
      limit.end();
    }
  }

  async screen(options: CallOptions = {}): Promise<ProcessScreen> {
    if (!this.#host.capabilities.processScreen) {
      throw unsupported('show the screen of a terminal', 'read the output of the process instead');
    }
    return readScreen(await this.#host.call('process/screen', { processId: this.processId }, options));
  }

  async takeOver(options: CallOptions = {}): Promise<void> {
    const { ref } = this;
    if (ref === null) throw unsupported('share processes', 'use a server with the capability processSharing');
    const received = (attached: Attached) => this.#attachment.answered(attached);
    await this.#host.attach({ ref, role: 'driver', takeOver: true }, received, options);
  }

  async detach(options: CallOptions = {}): Promise<void> {
    if (this.#detached) return;
    this.#detached = true;
    this.fail(new ClientError('closed', `the client has detached from process ${this.processId}`));
    if (this.#closed || this.ref === null || this.#host.unregister(this)) return;
    await this.#host.call('process/detach', { processId: this.processId }, options);
  }

  async kill(signal?: string, options?: CallOptions): Promise<void> {
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
    if (this.#exitCode === null && this.recoverable) this.#watchQuiet(QUIET_CHECK_FIRST_MS);
  }

  /** Called when the server has attached this client. Reads what happened before. */
  attached(): void {
    this.#started = true;
    this.#watchQuiet(this.#exitCode === null ? QUIET_CHECK_FIRST_MS : END_CHECK_FIRST_MS);
    void this.#catchUpNow(true);
  }

  /** Stops following a process that the caller no longer wants. */
  abandon(): void {
    this.#started = false;
    this.#order.end();
    this.#stopTimers();
  }

  /** Receives an event in order of arrival. */
  receive(event: SequencedEvent): void {
    if (!this.#order.insert(event)) void this.#catchUpNow(true);
    else if (this.#order.waiting) this.#scheduleCatchUp();
  }

  /** Reads the events that the server does not send because this client reads too slowly. */
  skipped(toSeq: number): void {
    this.#order.skip(toSeq);
    if (this.#order.waiting) void this.#catchUpNow(true);
  }

  /** Reads the events that were missed. Throws what `call` throws. */
  async catchUp(call: Call, allowGaps = true): Promise<void> {
    const withPosition = this.#host.capabilities.processReadPosition === true;
    await catchUp(this.processId, this.#order, call, { withPosition, allowGaps });
  }

  /** Ends the process for its readers with an error. Only the first error counts, and none after `closed`. */
  fail(error: ClientError): void {
    if (this.#closed || this.#failure !== null) return;
    this.#failure = error;
    this.#order.end();
    this.#stopTimers();
    this.#host.unregister(this);
    this.#log.append({ type: 'failed', error });
    this.#revision++;
    this.#changes.emit();
    this.#waits.end();
  }

  #publish(event: OrderedEvent): void {
    if (event.type === 'exited') {
      this.#exitCode = event.exitCode;
      this.#sandboxDenied = event.sandboxDenied;
      clearTimeout(this.#quietTimer);
      this.#watchQuiet(END_CHECK_FIRST_MS);
    } else if (event.type === 'closed') {
      this.#closed = true;
      this.#stopTimers();
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
    this.#host.call('process/detach', { processId: this.processId }).catch(() => {});
  }

  #scheduleCatchUp(): void {
    this.#missingTimer ??= setTimeout(() => {
      this.#missingTimer = undefined;
      if (this.#order.waiting) void this.#catchUpNow(true);
    }, MISSING_EVENT_DELAY_MS);
  }

  /**
   * Checks a silent process: while no event arrives, none reveals that the one before is missing. Gaps are not
   * reported as lost here, because events may still be on their way.
   */
  #watchQuiet(firstMs: number, ms = firstMs): void {
    const before = this.#revision;
    this.#quietTimer = setTimeout(() => {
      const quiet = this.#revision === before;
      if (quiet) void this.#catchUpNow(false);
      this.#watchQuiet(firstMs, quiet ? Math.min(ms * 2, QUIET_CHECK_MAX_MS) : firstMs);
    }, ms);
    // In a browser a timer is a number.
    this.#quietTimer.unref?.();
  }

  #stopTimers(): void {
    clearTimeout(this.#missingTimer);
    clearTimeout(this.#quietTimer);
  }

  /** Catches up, one request at a time. Repeats as long as events are missing. */
  async #catchUpNow(allowGaps: boolean): Promise<void> {
    if (this.#catchingUp) return;
    this.#catchingUp = true;
    try {
      await this.catchUp((method, params) => this.#host.call(method, params), allowGaps);
    } catch (error) {
      // A lost connection leads to a recovery, which catches up by itself.
      if (!maySucceedLater(error)) this.fail(cannotFollow(this.processId, error));
    }
    this.#catchingUp = false;
    if (this.#order.waiting) this.#scheduleCatchUp();
  }
}
