import type { ManagedProcess, ProcessListener } from '../../process/managed-process.ts';
import type { RetainedChunk } from '../../process/output-log.ts';
import type { ProcessManager, ProcessObserver, ProcessSummary } from '../../process/process-manager.ts';
import type { LimitReason } from '../../process/resources/resource-limits.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import { limitExceeded, printable, processDriven } from '../../protocol/errors.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import {
  ATTACHMENTS_PER_PROCESS,
  CATCH_UP_PAGE_BYTES,
  SHOWN_ATTACHED_CLIENTS,
  SHOWN_CLIENT_NAME_CHARS,
} from '../limits.ts';
import { type ClosedEvent, type EventSource, EventStream, type ExitEvent } from './event-stream.ts';
import { type Dialect, type EventSink, OutputBroadcast, processNotifier } from './process-events.ts';

/** A connection that receives the events of processes, or the session that it belongs to. */
export interface FollowerSink extends EventSink {
  readonly saturated: boolean;
  /** The `clientName` of its `initialize`. */
  readonly clientName: string;
  /** Whether the client understands `process/attachment` and `process/skipped`. */
  readonly sharing: boolean;
}

export type Role = 'viewer' | 'driver';
type RoleChange = NonNullable<NotificationParamsOf<'process/attachment'>['reason']>;

/** The session that started a process, and the id that its client chose. */
export interface HomeSession extends FollowerSink {
  /** The processes that the session knows by an id of its own. */
  readonly shared: Map<string, SharedProcess>;
}

/** What identifies a process on the server. */
interface SharedProcessIdentity {
  readonly ref: string;
  /** Its position among all processes that were ever started here, from 1. */
  readonly position: number;
  readonly owner: string;
  readonly name: string | null;
  readonly lifetime: 'session' | 'detached';
  readonly processId: string;
  readonly dialect: Dialect;
  readonly session: HomeSession;
  /** Where it runs, and its id there. */
  readonly manager: ProcessManager;
  readonly key: string;
}

/** One that follows the events of a process. */
export interface Follower {
  readonly processId: string;
  readonly sink: FollowerSink;
  readonly stream: EventStream;
  /** Why its role changed since the last notification. */
  roleChange: RoleChange | null;
  /** Whether a notification waits until its connection keeps up. */
  unannounced: boolean;
  /** Called when the process is gone and the client has been notified. */
  readonly ended: () => void;
}

/** The directory that a process is listed in. */
interface Directory {
  entered(process: SharedProcess): void;
  left(process: SharedProcess): void;
}

/**
 * A process as all clients of the server see it. It sends the events to the session that started it and to attached connections. One of
 * them drives: it may write, and the program waits for it when it reads too slowly. The session drives while it is connected and no
 * attached connection does.
 */
export class SharedProcess implements ProcessListener, ProcessObserver, EventSource {
  readonly ref: string;
  readonly position: number;
  readonly owner: string;
  readonly name: string | null;
  readonly lifetime: 'session' | 'detached';
  readonly manager: ProcessManager;
  readonly key: string;
  exit: ExitEvent | null = null;
  end: ClosedEvent | null = null;
  /** Called when the process has closed, before that is reported. */
  beforeEnd: () => void = () => {};
  /** When the process closed, in Unix time. */
  endedAtMs: number | null = null;
  readonly #directory: Directory;
  readonly #attached = new Set<Follower>();
  /** Null once the session is over. */
  #home: (Follower & { readonly sink: HomeSession }) | null;
  /** The attached connection that drives. */
  #driver: Follower | null = null;
  #process: ManagedProcess | null = null;
  #lastSeq = 0;
  #announcing = false;
  /** Created with the first attachment, which few processes have. */
  #broadcast: OutputBroadcast | null = null;

  constructor(identity: SharedProcessIdentity, directory: Directory) {
    const { processId, dialect, session } = identity;
    this.ref = identity.ref;
    this.position = identity.position;
    this.owner = identity.owner;
    this.name = identity.name;
    this.lifetime = identity.lifetime;
    this.manager = identity.manager;
    this.key = identity.key;
    this.#directory = directory;
    const stream = new EventStream(this, session, processNotifier(processId, dialect, session), true);
    this.#home = { processId, sink: session, stream, roleChange: null, unannounced: false, ended: () => {} };
  }

  /** Null before the start and when the process is forgotten. */
  get process(): ManagedProcess | null {
    return this.#process;
  }

  get running(): boolean {
    return this.exit === null;
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

  /** The session's own place among the followers, for the session that started the process; else null. */
  homeOf(session: object): Follower | null {
    return this.#home?.sink === session ? this.#home : null;
  }

  /** Adds a connection that follows under the reference. Nothing is sent to it before {@link follow}. Throws RpcError at the limit. */
  attach(sink: FollowerSink, ended: () => void): Follower {
    if (this.#attached.size >= ATTACHMENTS_PER_PROCESS) {
      throw limitExceeded(
        `process ${this.ref} has ${this.#attached.size} attached clients, the maximum; detach one first`,
      );
    }
    const stream = new EventStream(this, sink, processNotifier(this.ref, 'process', sink), false);
    const follower = { processId: this.ref, sink, stream, roleChange: null, unannounced: false, ended };
    this.#attached.add(follower);
    stream.hold(this.nextSeq);
    this.#announceSoon();
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

  /** Removes an attached connection. Does nothing when it is not attached. */
  detach(follower: Follower): void {
    if (!this.#attached.delete(follower)) return;
    if (this.#driver === follower) this.#setDriver(null, 'driverLeft');
    this.#announceSoon();
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

  /** The error for a request that only the driver may make. */
  drivenBy(driver: Follower): Error {
    return processDriven(
      `process ${this.ref} is driven by the client \`${shownName(driver)}\`; attach with the role \`driver\` and \`takeOver\` to drive it`,
    );
  }

  /** The session is connected now, or no longer. */
  homeChanged(): void {
    this.#home?.stream.restart();
    this.#updateDelivery();
    if (this.#attached.size > 0) this.#announceSoon();
  }

  /** The connection of the session no longer keeps up, or does so again. */
  homeFlowChanged(): void {
    if (this.#home !== null) this.flowChanged(this.#home);
  }

  /** The session is over. Its process may outlive it. */
  leaveHome(): void {
    const home = this.#home;
    if (home === null) return;
    this.#home = null;
    home.sink.shared.delete(home.processId);
    this.#updateDelivery();
    if (this.#attached.size > 0) this.#announceSoon();
  }

  /** The connection of a follower no longer keeps up, or does so again. */
  flowChanged(follower: Follower): void {
    this.#updatePaused();
    if (follower.sink.saturated) return;
    follower.stream.resume();
    if (follower.unannounced) this.#announce(follower);
  }

  get paused(): boolean {
    for (const { stream, sink } of this.#followers()) if (stream.lossless && sink.saturated) return true;
    return false;
  }

  reserved(): void {
    this.#home?.sink.shared.set(this.#home.processId, this);
    this.#directory.entered(this);
  }

  started(process: ManagedProcess): void {
    this.#process = process;
  }

  /** Followers that are behind get the exit and the end without the output before it. */
  removed(): void {
    this.#lastSeq = this.nextSeq - 1;
    this.#process = null;
    this.#directory.left(this);
    this.leaveHome();
    for (const follower of this.#attached) {
      follower.roleChange = 'processGone';
      this.flowChanged(follower);
    }
    if (this.#attached.size > 0) this.#announceSoon();
  }

  output(seq: number, stream: StreamName, bytes: Buffer): void {
    this.#home?.stream.output(seq, stream, bytes);
    if (this.#attached.size === 0) return;
    this.#broadcast ??= new OutputBroadcast(this.ref);
    this.#broadcast.send(this.#ready(seq), seq, stream, bytes);
  }

  exited(seq: number, exitCode: number, reason: LimitReason | null, denied: boolean): void {
    const exit = { seq, exitCode, reason, denied };
    this.exit = exit;
    for (const { stream } of this.#followers()) stream.exited(exit);
  }

  closed(seq: number, reason: LimitReason | null): void {
    const end = { seq, reason };
    this.end = end;
    this.endedAtMs = Date.now();
    this.beforeEnd();
    for (const { stream } of this.#followers()) stream.closed(end);
  }

  retainedAfter(afterSeq: number): readonly RetainedChunk[] {
    return this.#process?.retainedAfter(afterSeq, CATCH_UP_PAGE_BYTES) ?? [];
  }

  /** The attached connections that an event can be sent to now. */
  *#ready(seq: number): Generator<FollowerSink> {
    for (const { stream, sink } of this.#attached) if (stream.takes(seq)) yield sink;
  }

  *#followers(): Generator<Follower> {
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
    this.#announceSoon();
  }

  /** Only the driver's stream is lossless, and that of a session whose client would not understand a gap. */
  #updateDelivery(): void {
    for (const follower of this.#followers()) {
      const { stream, sink } = follower;
      stream.lossless =
        follower === this.#driver || (follower === this.#home && (this.#driver === null || !sink.sharing));
      if (stream.lossless) stream.resume();
    }
    this.#updatePaused();
  }

  #updatePaused(): void {
    this.#process?.setPaused(this.paused);
  }

  /** Notifies the followers once for all changes of this turn of the event loop. */
  #announceSoon(): void {
    if (this.#announcing) return;
    this.#announcing = true;
    setImmediate(() => {
      this.#announcing = false;
      const attached = this.attachedClients;
      for (const follower of this.#followers()) this.#announce(follower, attached);
    });
  }

  /** A client that does not keep up is notified later, so that changes cannot pile up for it. */
  #announce(follower: Follower, attached = this.attachedClients): void {
    const { sink, processId, roleChange, stream } = follower;
    if (!sink.attached || !sink.sharing) return;
    // The exit and the end come first, also for a connection that attached in this turn.
    if (roleChange === 'processGone') stream.begin();
    follower.unannounced = sink.saturated;
    if (sink.saturated) return;
    const params: NotificationParamsOf<'process/attachment'> = {
      processId,
      role: roleChange === 'processGone' ? 'none' : this.roleOf(follower),
      ...(roleChange !== null && { reason: roleChange }),
      attached,
      attachedCount: this.attachedCount,
    };
    follower.roleChange = null;
    if (params.role === 'none') {
      this.#attached.delete(follower);
      follower.ended();
    }
    sink.sendBulk(Buffer.from(encodeNotification('process/attachment', params)));
  }
}

function shownName({ sink }: Follower): string {
  return printable(sink.clientName, SHOWN_CLIENT_NAME_CHARS);
}
