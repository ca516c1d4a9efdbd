import type { ManagedProcess, ProcessListener } from '../../process/managed-process.ts';
import type { RetainedChunk } from '../../process/output-log.ts';
import type { ProcessManager, ProcessObserver } from '../../process/process-manager.ts';
import type { ProcessSummary } from '../../process/process-summary.ts';
import type { LimitReason, SessionLimits } from '../../process/resources/resource-limits.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import { limitExceeded, processDriven } from '../../protocol/errors.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import type { Recording } from '../../recording/recording.ts';
import {
  ATTACHMENTS_PER_PROCESS,
  CATCH_UP_PAGE_BYTES,
  ENDING_PROCESSES_PER_SESSION,
  SHOWN_ATTACHED_CLIENTS,
} from '../limits.ts';
import { AttachmentAnnouncer } from './attachment-announcer.ts';
import { DriverFlow } from './driver-flow.ts';
import { type ClosedEvent, type EventSource, EventStream, type ExitEvent } from './event-stream.ts';
import { type Follower, type FollowerSink, type Role, shownName } from './follower.ts';
import { OutputBroadcast, processNotifier } from './process-events.ts';
import type { Directory, HomeSession, SharedProcessIdentity } from './process-identity.ts';

/** The sandbox of a process in a listing. */
export type ListedSandbox = NonNullable<ResultOf<'process/list'>['processes'][number]['sandbox']>;

/**
 * A process as all clients of the server see it. It sends the events to the session that started it and to attached connections. One of
 * them drives: it may write, and the program waits for it when it reads too slowly. The session drives while it is connected and no
 * attached connection does. A session that has detached is no follower; it can attach like any other client and keeps its id.
 */
export class SharedProcess implements ProcessListener, ProcessObserver, EventSource {
  readonly ref: string;
  readonly position: number;
  readonly owner: string;
  readonly name: string | null;
  readonly limits: SessionLimits | null;
  textStream: StreamName = 'stdout';
  exit: ExitEvent | null = null;
  end: ClosedEvent | null = null;
  /** Called when the process has closed, before that is reported. */
  beforeEnd: () => void = () => {};
  /** Counts the process for another owner of quotas. Throws ProcessError when that is not possible. */
  transferQuota: (to: object) => void = () => {};
  /** When the process closed, in Unix time. */
  endedAtMs: number | null = null;
  #lifetime: 'session' | 'detached';
  #manager: ProcessManager;
  #key: string;
  /** How the program is sandboxed; null for a program without a sandbox. */
  sandbox: ListedSandbox | null = null;
  /** Null when the process is not recorded. */
  recording: Recording | null = null;
  readonly #directory: Directory;
  readonly #attached = new Set<Follower>();
  /** The session that started it, and its id there. Null once the session is over. */
  #origin: { readonly session: HomeSession; readonly processId: string } | null;
  /** That session as a follower. Null once it has detached or is over. */
  #home: Follower | null;
  /** The attached connection that drives. */
  #driver: Follower | null = null;
  /** What the driver and the session have not used yet. */
  readonly #flow: DriverFlow;
  /** Whether the process closed while its session had no connection. The session has not resumed since then. */
  #closedWhileAway = false;
  #process: ManagedProcess | null = null;
  #lastSeq = 0;
  /** Whether a connection was ever attached, so that the session may have missed a change of its role. */
  #wasShared = false;
  readonly #announcer = new AttachmentAnnouncer(this);
  /** Whether an attached connection has ever asked for the time of output. */
  #hasTimed = false;
  /** Created with the first attachment, which few processes have. */
  #broadcast: OutputBroadcast | null = null;

  constructor(identity: SharedProcessIdentity, directory: Directory) {
    const { processId, dialect, session, windowBytes, heldBytes } = identity;
    this.ref = identity.ref;
    this.position = identity.position;
    this.owner = identity.owner;
    this.name = identity.name;
    this.#lifetime = identity.lifetime;
    this.#manager = identity.manager;
    this.#key = identity.key;
    this.limits = identity.limits;
    this.#directory = directory;
    const stream = new EventStream(this, session, processNotifier(processId, dialect, session), true);
    const unnotified = { roleChange: null, announced: 'never' as const };
    this.#origin = { session, processId };
    this.#home = { processId, sink: session, stream, windowBytes: null, ...unnotified, ended: () => {} };
    if (session.attached) this.#home.windowBytes = windowBytes;
    this.#flow = new DriverFlow(heldBytes);
    this.#restartFlow();
  }

  get lifetime(): 'session' | 'detached' {
    return this.#lifetime;
  }

  /** Where it runs. */
  get manager(): ProcessManager {
    return this.#manager;
  }

  /** Its id there. */
  get key(): string {
    return this.#key;
  }

  /**
   * Makes the process outlive its session. From now on it does not wait for the session, which may be gone. `manager` has the detached
   * processes of the owner. Throws ProcessError when the process has closed, and at a limit; then nothing has changed.
   */
  makeDetached(manager: ProcessManager, retainMs: number): void {
    const moved = { processId: this.ref, retainMs };
    this.#manager.move(this.#key, manager, moved, () => this.transferQuota(manager));
    this.#lifetime = 'detached';
    this.#manager = manager;
    this.#key = this.ref;
    this.#flow.stopHolding();
    this.#updatePaused();
  }

  /** Null before the start and when the process is forgotten. */
  get process(): ManagedProcess | null {
    return this.#process;
  }

  get running(): boolean {
    return this.exit === null;
  }

  /**
   * Whether the process has not closed, or the client that it waits for may still get output: its connection does not keep up, or it has
   * not resumed its session since the process closed, and output is held for it.
   */
  get unfinished(): boolean {
    if (this.end === null) return true;
    if (this.driver !== null) return this.#isBehind(this.driver);
    return this.#home !== null && this.#closedWhileAway && this.#flow.holdsOutput;
  }

  get outputAtMs(): number {
    return this.#process?.outputAtMs ?? 0;
  }

  get nextSeq(): number {
    return this.#process?.nextSeq ?? this.#lastSeq + 1;
  }

  get summary(): ProcessSummary | undefined {
    return this.manager.summary(this.key);
  }

  /** How many connections are attached, without that of the session. */
  get attachments(): number {
    return this.#attached.size;
  }

  /** How many clients follow the process. */
  get attachedCount(): number {
    return this.#attached.size + (this.#home?.sink.attached ? 1 : 0);
  }

  /** Those clients, up to a limit. The driver comes first. */
  get attachedClients(): { client: string; role: Role }[] {
    const driver = this.driver;
    const followers: Follower[] = driver === null ? [] : [driver];
    for (const follower of [...(this.#home?.sink.attached ? [this.#home] : []), ...this.#attached]) {
      if (followers.length === SHOWN_ATTACHED_CLIENTS) break;
      if (follower !== driver) followers.push(follower);
    }
    return followers.map((follower) => ({ client: shownName(follower), role: this.roleOf(follower) }));
  }

  /** The connection that drives; null when there is none. */
  get driver(): Follower | null {
    return this.#driver ?? (this.#home?.sink.attached ? this.#home : null);
  }

  roleOf(follower: Follower): Role {
    return follower === this.driver ? 'driver' : 'viewer';
  }

  /** The id by which a session knows the process: the one that its client chose, or the reference. */
  idFor(session: object): string {
    return this.#origin?.session === session ? this.#origin.processId : this.ref;
  }

  /** The session as a follower, if it started the process and has not detached; else null. */
  homeOf(session: object): Follower | null {
    return this.#home?.sink === session ? this.#home : null;
  }

  /** Adds a connection that knows the process by an id. Nothing is sent to it before {@link follow}. Throws RpcError at the limit. */
  attach(processId: string, sink: FollowerSink, ended: () => void): Follower {
    if (this.#attached.size >= ATTACHMENTS_PER_PROCESS) {
      throw limitExceeded(
        `process ${this.ref} has ${this.#attached.size} attached clients, the maximum; detach one first`,
      );
    }
    const stream = new EventStream(this, sink, processNotifier(processId, 'process', sink), false);
    const unnotified = { roleChange: null, announced: 'never' as const };
    const follower: Follower = { processId, sink, stream, windowBytes: null, ...unnotified, ended };
    this.#attached.add(follower);
    this.#wasShared = true;
    stream.hold(this.nextSeq);
    this.#announcer.changed();
    return follower;
  }

  /** Sends a follower the events from a sequence number on, in a later turn of the event loop: after the response that announces them. */
  follow(follower: Follower, nextSeq: number): void {
    const { stream } = follower;
    stream.hold(nextSeq);
    setImmediate(() => {
      if (this.#attached.has(follower) || this.#home === follower) stream.begin();
    });
  }

  /** Removes an attached connection, or the session as a follower. Does nothing when it does not follow. */
  detach(follower: Follower): void {
    if (follower === this.#home) {
      this.#home = null;
      this.#flow.stopHolding();
      this.#updateDelivery();
      this.#updatePaused();
      if (this.#attached.size > 0) this.#announcer.changed();
      return;
    }
    if (!this.#attached.delete(follower)) return;
    if (this.#driver === follower) this.#setDriver(null, 'driverLeft');
    this.#announcer.changed();
  }

  /** Removes a connection that was notified of the end of the process. */
  remove(follower: Follower): void {
    this.#attached.delete(follower);
    follower.ended();
  }

  /** Throws RpcError when a client other than this follower drives. */
  requireUndriven(follower: Follower | undefined): void {
    const { driver } = this;
    if (driver !== null && driver !== follower) throw this.drivenBy(driver);
  }

  /** Makes a follower the driver. Returns the one that was demoted, if any. */
  drive(follower: Follower): Follower | null {
    const present = this.driver;
    if (present === follower) return null;
    this.#setDriver(follower === this.#home ? null : follower, 'takenOver');
    return present;
  }

  /** Makes the attached driver a viewer. */
  stopDriving(follower: Follower): void {
    if (this.#driver === follower) this.#setDriver(null, 'driverLeft');
  }

  /** The client of a follower has used the events up to this one. Counts while it drives. */
  consumed(follower: Follower, seq: number): void {
    if (follower !== this.#flow.driver) return;
    this.#flow.consumed(seq);
    this.#updatePaused();
  }

  /**
   * The client of a follower asks for what comes after an event, or for the end: infinity. That counts as a report of a client of the
   * session that does not report what it uses. It may have resumed the session of another one.
   */
  requested(follower: Follower, afterSeq: number): void {
    if (follower !== this.#home || follower.windowBytes !== null) return;
    this.#flow.requested(afterSeq);
    this.#updatePaused();
  }

  /** The client of a follower reports what it uses from now on, or no longer: null. Counts while it drives. */
  setWindow(follower: Follower, windowBytes: number | null): void {
    follower.windowBytes = windowBytes;
    if (follower === this.#home && windowBytes === null) this.#flow.stopHolding();
    if (follower === this.#flow.driver) this.#restartFlow();
    else this.#updatePaused();
  }

  /** The client of a follower wants the time of output from now on, or no longer. */
  setTimed(follower: Follower, timed: boolean): void {
    follower.stream.timed = timed;
    this.#hasTimed ||= timed;
  }

  /** The error for a request that only the driver may make. */
  drivenBy(driver: Follower): Error {
    return processDriven(
      `process ${this.ref} is driven by the client \`${shownName(driver)}\`; attach with the role \`driver\` and \`takeOver\` to drive it`,
    );
  }

  /** The session is connected now, or no longer. It has no window until its present connection says that it reports what it uses. */
  homeChanged(): void {
    if (this.#home === null) return;
    this.#home.stream.restart();
    this.#closedWhileAway = false;
    this.#home.announced = 'never';
    this.#home.windowBytes = null;
    this.#home.stream.timed = false;
    const change = this.#home.sink.attached ? 'connected' : 'disconnected';
    this.recording?.marker(`${change}: ${shownName(this.#home)}`);
    this.#updateDelivery();
    if (this.#wasShared) this.#announcer.changed();
  }

  /** The connection of the session no longer keeps up, or does so again. */
  homeFlowChanged(): void {
    if (this.#home === null) return;
    this.flowChanged(this.#home);
    if (this.#process === null && this.end !== null && !this.#isBehind(this.#home)) this.leaveHome();
  }

  /** The session is over. Its process may outlive it. */
  leaveHome(): void {
    if (this.#origin === null) return;
    const { session, processId } = this.#origin;
    this.#origin = null;
    for (const processes of [session.shared, session.ending]) {
      if (processes.get(processId) === this) processes.delete(processId);
    }
    if (this.#home !== null) this.detach(this.#home);
  }

  /** The connection of a follower no longer keeps up, or does so again. */
  flowChanged(follower: Follower): void {
    this.#updatePaused();
    if (follower.sink.saturated) return;
    follower.stream.resume();
    this.#announcer.flowed(follower);
  }

  get paused(): boolean {
    for (const { stream, sink } of this.followers()) if (stream.lossless && sink.saturated) return true;
    return false;
  }

  reserved(): void {
    if (this.#origin !== null) {
      const { processId, session } = this.#origin;
      session.ending.get(processId)?.leaveHome();
      session.shared.set(processId, this);
    }
    this.#directory.entered(this);
  }

  started(process: ManagedProcess): void {
    this.#process = process;
    process.tap(this.recording);
    if (process.size !== null) this.textStream = 'pty';
  }

  /** Followers that are behind get the exit and the end without the output before it. */
  removed(): void {
    this.#lastSeq = this.nextSeq - 1;
    // Where something keeps the output open, the process does not close.
    if (this.#process !== null) void this.recording?.end();
    this.#process = null;
    this.#directory.left(this);
    const [origin, home] = [this.#origin, this.#home];
    if (origin !== null && home?.sink.attached && this.end !== null && this.#isBehind(home)) {
      const { shared, ending } = origin.session;
      shared.delete(origin.processId);
      const [oldest] = ending.values();
      if (ending.size >= ENDING_PROCESSES_PER_SESSION) oldest?.leaveHome();
      ending.set(origin.processId, this);
    } else this.leaveHome();
    for (const follower of this.#attached) {
      follower.roleChange = 'processGone';
      this.flowChanged(follower);
    }
    if (this.#attached.size > 0) this.#announcer.changed();
  }

  output(seq: number, stream: StreamName, bytes: Buffer): void {
    this.#home?.stream.output(seq, stream, bytes);
    if (this.#attached.size > 0) {
      this.#broadcast ??= new OutputBroadcast(this.ref);
      this.#broadcast.send(this.#ready(seq, false), seq, stream, bytes);
      if (this.#hasTimed) this.#broadcast.send(this.#ready(seq, true), seq, stream, bytes, this.outputAtMs);
      for (const follower of this.#attached) {
        if (follower.processId !== this.ref) follower.stream.output(seq, stream, bytes);
      }
    }
    this.#flow.output(seq, bytes.length, this.#driver !== null);
    if (this.#flow.isFull) this.#updatePaused();
  }

  exited(seq: number, exitCode: number, reason: LimitReason | null, denied: boolean): void {
    const exit = { seq, exitCode, reason, denied };
    this.exit = exit;
    for (const { stream } of this.followers()) stream.exited(exit);
  }

  closed(seq: number, reason: LimitReason | null): void {
    const end = { seq, reason };
    this.end = end;
    this.endedAtMs = Date.now();
    this.#closedWhileAway = this.driver === null;
    this.beforeEnd();
    for (const { stream } of this.followers()) stream.closed(end);
  }

  retainedAfter(afterSeq: number): readonly RetainedChunk[] {
    return this.#process?.retainedAfter(afterSeq, CATCH_UP_PAGE_BYTES) ?? [];
  }

  /** Whether events were not sent to a follower yet. */
  #isBehind({ stream }: Follower): boolean {
    return stream.nextSeq < this.nextSeq;
  }

  /** The attached connections that know it by its reference and that output can be sent to now, with or without its time. */
  *#ready(seq: number, timed: boolean): Generator<FollowerSink> {
    for (const { processId, stream, sink } of this.#attached) {
      if (processId === this.ref && stream.timed === timed && stream.takes(seq)) yield sink;
    }
  }

  /** The session unless it has detached, and the attached connections. */
  *followers(): Generator<Follower> {
    if (this.#home !== null) yield this.#home;
    yield* this.#attached;
  }

  #setDriver(driver: Follower | null, reason: 'takenOver' | 'driverLeft'): void {
    const before = this.driver;
    this.#driver = driver;
    const now = this.driver;
    const affected = reason === 'takenOver' ? before : now;
    if (affected !== null) affected.roleChange = reason;
    this.#updateDelivery();
    this.#announcer.changed();
  }

  /** The program waits for the driver only. */
  #updateDelivery(): void {
    for (const follower of this.followers()) {
      const { stream } = follower;
      stream.lossless = follower === (this.#driver ?? this.#home);
      if (stream.lossless) stream.resume();
    }
    if (this.driver === this.#flow.driver) this.#updatePaused();
    else this.#restartFlow();
  }

  #updatePaused(): void {
    this.#process?.setPaused(this.paused);
    this.#process?.setHeld(this.#flow.isFull);
  }

  /** The driver has used nothing yet of what comes from now on, and all that came before. */
  #restartFlow(): void {
    // Nothing is held for a client that has taken over, or for the session after it. Only the session can resume.
    const before = this.#flow.driver;
    const wasAttached = before !== null && before !== this.#home;
    if (this.#driver !== null || wasAttached) this.#flow.forget(this.nextSeq - 1);
    this.#flow.restart(this.driver);
    this.#updatePaused();
  }
}
