import type { ManagedProcess } from '../../process/managed-process.ts';
import type { TerminateMode } from '../../process/termination.ts';
import {
  forbidden,
  internalError,
  invalidParams,
  invalidRequest,
  limitExceeded,
  notFound,
  printable,
} from '../../protocol/errors.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import type { BytesMessage } from '../../transport/transport.ts';
import type { Access } from '../auth/access.ts';
import { ATTACHMENTS_PER_CONNECTION } from '../limits.ts';
import type { ConnectionRecords } from '../records/records.ts';
import { type Follower, type FollowerSink, shownName } from './follower.ts';
import type { ProcessDirectory, Reader } from './process-directory.ts';
import type { EventSink } from './process-events.ts';
import type { Session } from './session.ts';
import type { SessionRegistry } from './session-registry.ts';
import type { SharedProcess } from './shared-process.ts';

/** What a request does with a process. */
type Use = 'read' | 'signal' | 'write';

type AttachParams = Pick<ParamsOf<'process/attach'>, 'role' | 'takeOver' | 'windowBytes' | 'withTimes'>;

type Wanted = Pick<ParamsOf<'process/attach'>, 'ref' | 'name' | 'processId' | 'sessionId'>;

/** A connection that process events are sent to. */
interface Peer extends Omit<EventSink, 'attached'> {
  readonly saturated: boolean;
}

/**
 * The processes that one connection can use: those of its session, by the ids that its client chose, and others by their references.
 * Owns the attachments of the connection.
 */
export class ConnectionProcesses {
  readonly #session: Session;
  readonly #sessions: SessionRegistry;
  readonly #directory: ProcessDirectory;
  readonly #access: Access;
  /** Whose processes it may read. */
  readonly reader: Reader;
  readonly #sink: FollowerSink;
  readonly #records: Pick<ConnectionRecords, 'attachment' | 'lifetime'>;
  /** By the ids of the processes on this connection. */
  readonly #attachments = new Map<string, Attachment>();
  /** Created for the first request that needs it. */
  #ended: AbortController | null = null;
  #isDisposed = false;

  constructor(
    session: Session,
    sessions: SessionRegistry,
    access: Access,
    peer: Peer,
    records: Pick<ConnectionRecords, 'attachment' | 'lifetime'>,
  ) {
    this.#session = session;
    this.#sessions = sessions;
    this.#directory = sessions.directory;
    this.#access = access;
    this.reader = { owner: session.owner, observe: access.observe };
    this.#sink = new AttachedPeer(peer, session.clientName);
    this.#records = records;
  }

  /** Like {@link ProcessManager.find}. Throws RpcError when the connection may not use the process so. */
  find(processId: string, use: Use): Promise<ManagedProcess | undefined> {
    const process = this.#lookUp(processId);
    if (process === undefined) return this.#session.processes.find(processId);
    this.#requireUse(process, use);
    return process.manager.find(process.key);
  }

  /** Like {@link ProcessManager.get}. Throws RpcError when the connection may not use the process so. */
  get(processId: string, use: Use): Promise<ManagedProcess> {
    const process = this.#lookUp(processId);
    if (process !== undefined) {
      this.#requireUse(process, use);
      return process.manager.get(process.key);
    }
    const ended = this.#directory.endOf(this.reader, { ref: processId });
    return ended === null ? this.#session.processes.get(processId) : Promise.reject(ended);
  }

  /** Like {@link ProcessManager.terminate}. Throws RpcError when the connection may not. */
  terminate(processId: string, mode: TerminateMode): Promise<boolean> {
    const process = this.#lookUp(processId);
    if (process === undefined) return this.#session.processes.terminate(processId, mode);
    this.#requireUse(process, 'signal');
    return process.manager.terminate(process.key, mode);
  }

  /** Like {@link ProcessManager.forget}. Throws RpcError when the connection may not. */
  async forget(processId: string): Promise<void> {
    // Rejects for a process that is gone, and says when it ended.
    await this.get(processId, 'signal');
    const process = this.#lookUp(processId);
    await (process === undefined
      ? this.#session.processes.forget(processId)
      : process.manager.forget(process.key));
  }

  /** Makes a process outlive its session. Throws RpcError when the connection may not, ProcessError when it has closed or at a limit. */
  async makeDetached(processId: string, retainMs: number): Promise<void> {
    // Rejects for a process that is gone, and says when it ended.
    await this.get(processId, 'signal');
    const process = this.#lookUp(processId);
    // Another request has removed it meanwhile.
    if (process === undefined) throw notFound(unknown(processId, undefined));
    this.#directory.makeDetached(process, retainMs);
    this.#records.lifetime(process.ref, { lifetime: 'detached', retainMs });
  }

  /** The processes of a scope, in the order of their starts. Throws RpcError when the connection may not list them. */
  list(scope: 'session' | 'owner' | 'server'): Iterable<SharedProcess> {
    if (scope === 'session') return this.#session.shared.values();
    if (scope === 'owner') return this.#directory.list(this.reader.owner);
    if (!this.reader.observe) {
      throw forbidden(
        'the token does not allow to list the processes of all owners: it needs the scope `observe`',
      );
    }
    return this.#directory.list(null);
  }

  /** The id of a process on this connection. */
  idOf(process: SharedProcess): string {
    return process.idFor(this.#session);
  }

  /** Finds the process that a request names, once it runs. Rejects with RpcError when there is none. */
  async wanted(wanted: Wanted): Promise<SharedProcess> {
    const process = this.#wanted(wanted);
    await process.manager.get(process.key);
    return process;
  }

  /**
   * Attaches to a process that was found, or changes the role of an attachment. The client gets its events from `nextSeq` on; null is
   * from now on. For a process of its own session the client keeps its id. Unless it has detached, it keeps its role, too, until it takes
   * over. Throws RpcError.
   */
  attach(
    process: SharedProcess,
    { role, takeOver, windowBytes, withTimes }: AttachParams,
    nextSeq: number | null,
  ): Follower {
    // The connection may have ended while the request waited for the process.
    if (this.#isDisposed) throw connectionEnded();
    if (process.process === null) throw this.#gone(process);
    const own = this.#followerOf(process);
    if (role === 'driver') {
      this.#requireMayDrive(process);
      if (!takeOver) process.requireUndriven(own);
    }
    // A change of the driver can let a program continue immediately. The client gets that output, because its window counts it.
    const fromSeq = nextSeq ?? process.nextSeq;
    const follower = own ?? this.#add(process);
    if (windowBytes !== undefined) process.setWindow(follower, windowBytes);
    if (withTimes !== undefined) process.setTimed(follower, withTimes);
    const demoted = role === 'driver' ? process.drive(follower) : null;
    if (role === 'viewer') process.stopDriving(follower);
    if (own === undefined || demoted !== null)
      mark(process, follower, attachMarker(process, follower, demoted));
    this.#records.attachment('attach', process.ref, {
      role: process.roleOf(follower),
      takenOverFrom: demoted?.sink.clientName ?? null,
    });
    if (own === undefined || nextSeq !== null) process.follow(follower, fromSeq);
    return follower;
  }

  /** Throws RpcError when a new process cannot have this id, because the connection uses it for an attachment. */
  requireUnattached(processId: string): void {
    if (!this.#attachments.has(processId)) return;
    throw invalidRequest(
      `this connection is attached to process ${processId}; choose another id, or detach from that process`,
    );
  }

  /**
   * Ends an attachment. A process of its own session that ends with the session loses only its flow-control window. Does nothing when the
   * connection does not follow the process.
   */
  detach(processId: string): void {
    const followed = this.#followed(processId);
    if (followed === undefined) return;
    const { process, follower } = followed;
    const isHome = follower === process.homeOf(this.#session);
    if (isHome && process.lifetime === 'session') process.setWindow(follower, null);
    else this.#end(followed);
  }

  /** The client has used the events of a process up to this one. Does nothing when it does not follow the process. */
  consumed(processId: string, seq: number): void {
    const followed = this.#followed(processId);
    followed?.process.consumed(followed.follower, seq);
  }

  /** The client asks for what comes after an event of a process. Infinity stands for the end of the process. */
  requested(processId: string, afterSeq: number): void {
    const followed = this.#followed(processId);
    followed?.process.requested(followed.follower, afterSeq);
  }

  /** The connection no longer keeps up, or does so again. */
  flowChanged(): void {
    for (const { process, follower } of this.#attachments.values()) process.flowChanged(follower);
  }

  /** Aborts when the connection is closed. Unlike the signal of a request it does not abort when the client has only ended its input. */
  get ended(): AbortSignal {
    this.#ended ??= new AbortController();
    if (this.#isDisposed) this.#ended.abort(connectionEnded());
    return this.#ended.signal;
  }

  /** Ends all attachments. */
  dispose(): void {
    this.#isDisposed = true;
    this.#ended?.abort(connectionEnded());
    for (const attachment of [...this.#attachments.values()]) this.#end(attachment);
  }

  #lookUp(processId: string): SharedProcess | undefined {
    return this.#session.shared.get(processId) ?? this.#directory.find(processId, this.reader);
  }

  /** What the connection follows by an id. A process that is gone stays attached until the client is notified. */
  #followed(processId: string): Attachment | undefined {
    const process = this.#lookUp(processId);
    if (process === undefined) return this.#attachments.get(processId);
    const follower = this.#followerOf(process);
    return follower && { process, follower };
  }

  /** The connection as a follower of a process: as its session, or attached. */
  #followerOf(process: SharedProcess): Follower | undefined {
    return process.homeOf(this.#session) ?? this.#attachments.get(this.idOf(process))?.follower;
  }

  /** A reference wins over a name. */
  #wanted({ ref, name, processId, sessionId }: Wanted): SharedProcess {
    const id = ref ?? processId;
    if (id === undefined && name === undefined)
      throw invalidParams('params: expected `ref`, `name` or `processId`');
    const ofSession = ref === undefined ? sessionId : undefined;
    const withId = id === undefined ? undefined : this.#withId(id, ofSession);
    const process = withId ?? (name === undefined ? undefined : this.#directory.named(name, this.reader));
    if (process !== undefined) return process;
    const ended =
      (id === undefined ? null : this.#directory.endOf(this.reader, { ref: id })) ??
      (name === undefined ? null : this.#directory.endOf(this.reader, { name }));
    throw notFound(ended?.message ?? unknown(id, name));
  }

  #gone({ ref }: SharedProcess): Error {
    return notFound(this.#directory.endOf(this.reader, { ref })?.message ?? unknown(ref, undefined));
  }

  #withId(id: string, sessionId: string | undefined): SharedProcess | undefined {
    return sessionId === undefined ? this.#lookUp(id) : this.#ofSession(sessionId, id);
  }

  #ofSession(sessionId: string, processId: string): SharedProcess | undefined {
    const process = this.#sessions.find(sessionId)?.shared.get(processId);
    return process && this.#directory.find(process.ref, this.reader);
  }

  /** Throws RpcError when the connection may read the process but not use it in this way. */
  #requireUse(process: SharedProcess, use: Use): void {
    if (use === 'read') return;
    this.#requireOwner(process);
    const home = process.homeOf(this.#session);
    const attached = this.#attachments.get(this.idOf(process))?.follower;
    const { driver } = process;
    if (attached !== undefined && attached !== driver) {
      throw driver !== null && use === 'write'
        ? process.drivenBy(driver)
        : invalidRequest(
            `this connection is attached to process ${process.ref} as a viewer; attach with the role \`driver\` first`,
          );
    }
    if (use === 'write' && driver !== null && driver !== home && driver !== attached) {
      throw process.drivenBy(driver);
    }
  }

  #requireMayDrive(process: SharedProcess): void {
    if (!this.#access.exec) {
      throw forbidden('the token does not allow to drive a process: it needs the scope `exec`');
    }
    this.#requireOwner(process);
  }

  #requireOwner({ ref, owner }: SharedProcess): void {
    if (owner === this.reader.owner) return;
    throw forbidden(`process ${ref} belongs to another owner: it can be viewed only`);
  }

  #add(process: SharedProcess): Follower {
    const { ref } = process;
    if (this.#session.shared.has(ref)) {
      throw invalidRequest(
        `a process of this session has the id ${ref}, by which the connection would know process ${ref}; attach on another connection`,
      );
    }
    if (this.#attachments.size >= ATTACHMENTS_PER_CONNECTION) {
      throw limitExceeded(
        `this connection is attached to ${this.#attachments.size} processes, the maximum; detach from one first`,
      );
    }
    const processId = this.idOf(process);
    const follower = process.attach(processId, this.#sink, () => this.#attachments.delete(processId));
    this.#attachments.set(processId, { process, follower });
    return follower;
  }

  #end({ process, follower }: Attachment): void {
    mark(process, follower, `detached: ${shownName(follower)}`);
    this.#attachments.delete(follower.processId);
    process.detach(follower);
    this.#records.attachment('detach', process.ref, {});
  }
}

function mark(process: SharedProcess, follower: Follower, text: string): void {
  if (process.roleOf(follower) === 'viewer') process.recording?.viewerMarker(text);
  else process.recording?.marker(text);
}

function attachMarker(process: SharedProcess, follower: Follower, demoted: Follower | null): string {
  const name = shownName(follower);
  if (demoted !== null) return `taken over: ${name} from ${shownName(demoted)}`;
  return `attached: ${name} (${process.roleOf(follower)})`;
}

interface Attachment {
  readonly process: SharedProcess;
  readonly follower: Follower;
}

/** The connection as a follower. Its client knows attachments, because it has asked for one. */
class AttachedPeer implements FollowerSink {
  readonly attached = true;
  readonly sharing = true;
  readonly clientName: string;
  readonly #peer: Peer;

  constructor(peer: Peer, clientName: string) {
    this.#peer = peer;
    this.clientName = clientName;
  }

  get saturated(): boolean {
    return this.#peer.saturated;
  }

  sendBulk(message: Uint8Array | BytesMessage, released?: () => void): void {
    this.#peer.sendBulk(message, released);
  }

  takesBytes(length: number): boolean {
    return this.#peer.takesBytes?.(length) ?? false;
  }
}

function connectionEnded(): Error {
  return internalError('the connection has ended');
}

function unknown(id: string | undefined, name: string | undefined): string {
  if (id === undefined) return `unknown process name ${name}`;
  return `unknown process id ${printable(id)}${name === undefined ? '' : ` and unknown process name ${name}`}`;
}
