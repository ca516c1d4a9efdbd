import { randomBytes } from 'node:crypto';
import { ProcessError } from '../../process/errors.ts';
import { ProcessManager, type ProcessManagerOptions } from '../../process/process-manager.ts';
import type { SessionLimits } from '../../process/resources/resource-limits.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import { ENDED_PROCESS_RECORDS, REF_CHARS, REFS_PER_RANDOM_READ } from '../limits.ts';
import type { Dialect } from './process-events.ts';
import type { HomeSession } from './process-identity.ts';
import { SharedProcess } from './shared-process.ts';

/** A process that is about to be started. */
interface EnteringProcess {
  readonly processId: string;
  readonly name: string | null;
  readonly lifetime: 'session' | 'detached';
  /** The flow-control window of the session; null is none. */
  readonly windowBytes: number | null;
  /** How much output is held for the session while it is not used; null when nothing is held. */
  readonly heldBytes: number | null;
  readonly dialect: Dialect;
}

/** The session that starts a process. */
interface StartingSession extends HomeSession {
  readonly owner: string;
  readonly processes: ProcessManager;
  readonly limits: SessionLimits | null;
}

/** What the detached processes of an owner get. */
interface DetachedOptions {
  readonly manager: ProcessManagerOptions;
  /** What they may use together; null is no limit. */
  readonly limits: SessionLimits | null;
}

/** Where a process runs, and what limits it together with others. */
interface DetachedHome {
  readonly manager: ProcessManager;
  readonly limits: SessionLimits | null;
}

/** Whose processes a connection may use. */
export interface Reader {
  readonly owner: string;
  /** Whether it may read the processes of all owners. */
  readonly observe: boolean;
}

/** A process that is gone. */
interface EndedProcess {
  readonly ref: string;
  readonly name: string | null;
  readonly owner: string;
  readonly exitCode: number;
  readonly endedAtMs: number;
  readonly removedAtMs: number;
}

/** The processes of one owner. */
class OwnerProcesses {
  readonly listed = new Set<SharedProcess>();
  /** The latest process with each name. */
  readonly names = new Map<string, SharedProcess>();
  /** Null before the first detached process. */
  detached: DetachedHome | null = null;
}

/** All processes of a server, by the reference that it gives each of them and by their owners. */
export class ProcessDirectory {
  readonly #spawner: Spawner;
  readonly #detachedOptions: (owner: string) => DetachedOptions;
  readonly #byRef = new Map<string, SharedProcess>();
  readonly #owners = new Map<string, OwnerProcesses>();
  /** The first removed first. */
  readonly #ended = new Map<string, EndedProcess>();
  #randomness: Buffer = Buffer.alloc(0);
  #lastPosition = 0;
  #closing = false;
  #draining = false;

  constructor(spawner: Spawner, detachedOptions: (owner: string) => DetachedOptions) {
    this.#spawner = spawner;
    this.#detachedOptions = detachedOptions;
  }

  /**
   * Gives a process its reference. It is listed when its start begins. Throws ProcessError when its name or id is in use, and for a
   * detached process while the server shuts down; for any process while it drains.
   */
  enter(session: StartingSession, entering: EnteringProcess): SharedProcess {
    if (this.#draining) {
      throw new ProcessError(
        'shuttingDown',
        'the server is draining: it starts no programs and will end soon; try again later',
      );
    }
    const { owner } = session;
    const { processId, name, lifetime } = entering;
    const processes = this.#ownerProcesses(owner);
    if (name !== null && processes.names.get(name)?.running) {
      throw new ProcessError(
        'nameInUse',
        `the name ${name} is in use by the running process ${processes.names.get(name)!.ref}; choose another, or terminate that process`,
      );
    }
    // A reference wins over a name. Processes of other owners must not show themselves here.
    if (name !== null && [this.#byRef, this.#ended].some((refs) => refs.get(name)?.owner === owner)) {
      throw new ProcessError(
        'nameInUse',
        `the name ${name} is the reference of another process; choose another name`,
      );
    }
    // The manager of a session's own processes checks the same.
    if (lifetime === 'detached' && this.#closing) {
      throw new ProcessError('shuttingDown', 'the server is shutting down; no program can be started');
    }
    const same = session.shared.get(processId);
    if (same !== undefined && [lifetime, same.lifetime].includes('detached')) {
      throw new ProcessError('duplicateProcess', `process ${processId} already exists`);
    }
    const ref = this.#newRef();
    const home =
      lifetime === 'detached'
        ? { ...this.#detachedHome(owner, processes), key: ref }
        : { manager: session.processes, limits: session.limits, key: processId };
    const position = this.#nextPosition();
    const identity = { ...entering, ref, position, owner, session, ...home };
    return new SharedProcess(identity, {
      entered: (process) => this.#entered(process, processes),
      left: (process) => this.#left(process, processes),
    });
  }

  /**
   * Makes a process outlive its session, as if it had been started detached. Throws ProcessError when it has closed, at a limit, and
   * while the server shuts down; then nothing has changed.
   */
  makeDetached(process: SharedProcess, retainMs: number): void {
    if (this.#closing) {
      throw new ProcessError('shuttingDown', 'the server is shutting down; its programs end');
    }
    const { owner, ref, lifetime, limits } = process;
    if (lifetime === 'session' && limits !== null) {
      // A control group cannot move to another group, and memory in use stays with the group that it was taken in.
      throw new ProcessError(
        'limitUnavailable',
        `process ${ref} cannot leave the limits of its session (maxSessionMemoryBytes, maxSessionPids, maxSessionCpuPercent); start it with the lifetime \`detached\``,
      );
    }
    const { manager } = this.#detachedHome(owner, this.#ownerProcesses(owner));
    process.makeDetached(manager, retainMs);
  }

  /** The process with this reference, if the reader may read it. */
  find(ref: string, reader: Reader): SharedProcess | undefined {
    const process = this.#byRef.get(ref);
    return process !== undefined && mayRead(reader, process) ? process : undefined;
  }

  /** The latest process of the reader's owner that has this name. */
  named(name: string, { owner }: Reader): SharedProcess | undefined {
    return this.#owners.get(owner)?.names.get(name);
  }

  /** The processes of an owner, or of all owners, in the order of their starts. */
  list(owner: string | null): Iterable<SharedProcess> {
    return owner === null ? this.#byRef.values() : (this.#owners.get(owner)?.listed ?? []);
  }

  /** Connections that are attached to processes, counted for each process. */
  get attachments(): number {
    let count = 0;
    for (const process of this.#byRef.values()) count += process.attachments;
    return count;
  }

  /** How a process that is gone ended, if the reader could have read it. */
  endOf(reader: Reader, wanted: { readonly ref: string } | { readonly name: string }): ProcessError | null {
    const ended = 'ref' in wanted ? this.#ended.get(wanted.ref) : this.#lastNamed(wanted.name, reader.owner);
    if (ended === undefined || !mayRead(reader, ended)) return null;
    const [endedAt, removedAt] = [ended.endedAtMs, ended.removedAtMs].map((ms) => new Date(ms).toISOString());
    return new ProcessError(
      'unknownProcess',
      `process ${'ref' in wanted ? ended.ref : ended.name} exited with code ${ended.exitCode} and closed at ${endedAt}; its output was removed at ${removedAt}`,
    );
  }

  /** Refuses further processes. */
  drain(): void {
    this.#draining = true;
  }

  /** Processes that have not closed yet, or whose output was not delivered yet. */
  get unfinished(): number {
    let count = 0;
    for (const process of this.#byRef.values()) if (process.unfinished) count++;
    return count;
  }

  /** Refuses further detached processes, and returns the managers of those that exist. */
  close(): ProcessManager[] {
    this.#closing = true;
    return [...this.#owners.values()].flatMap(({ detached }) =>
      detached === null ? [] : [detached.manager],
    );
  }

  #ownerProcesses(owner: string): OwnerProcesses {
    return this.#owners.get(owner) ?? new OwnerProcesses();
  }

  /** Detached processes run there from the beginning, so that they do not end with a session. */
  #detachedHome(owner: string, processes: OwnerProcesses): DetachedHome {
    if (processes.detached === null) {
      const { manager, limits } = this.#detachedOptions(owner);
      processes.detached = { manager: new ProcessManager(this.#spawner, manager), limits };
    }
    return processes.detached;
  }

  /** A time in microseconds, later than the previous one. A count would show an owner how many processes others start. */
  #nextPosition(): number {
    const now = Math.floor((performance.timeOrigin + performance.now()) * 1_000);
    this.#lastPosition = Math.max(this.#lastPosition + 1, now);
    return this.#lastPosition;
  }

  #entered(process: SharedProcess, processes: OwnerProcesses): void {
    const { ref, owner, name } = process;
    this.#owners.set(owner, processes);
    this.#byRef.set(ref, process);
    processes.listed.add(process);
    if (name !== null) processes.names.set(name, process);
  }

  #left(process: SharedProcess, { listed, names, detached }: OwnerProcesses): void {
    const { ref, owner, name } = process;
    this.#byRef.delete(ref);
    listed.delete(process);
    if (name !== null && names.get(name) === process) names.delete(name);
    if (listed.size === 0) {
      this.#owners.delete(owner);
      detached?.limits?.close();
    }
    this.#remember(process);
  }

  #newRef(): string {
    for (;;) {
      const ref = this.#randomRef();
      if (!this.#byRef.has(ref) && !this.#ended.has(ref) && !this.#isName(ref)) return ref;
    }
  }

  #isName(ref: string): boolean {
    for (const { names } of this.#owners.values()) if (names.has(ref)) return true;
    return false;
  }

  /** Random bytes are fetched for many references, because each call takes as long as all the rest. */
  #randomRef(): string {
    if (this.#randomness.length < REF_CHARS) this.#randomness = randomBytes(REF_CHARS * REFS_PER_RANDOM_READ);
    let ref = '';
    for (let index = 0; index < REF_CHARS; index++) {
      ref += REF_ALPHABET[this.#randomness[index]! % REF_ALPHABET.length];
    }
    this.#randomness = this.#randomness.subarray(REF_CHARS);
    return ref;
  }

  #remember({ ref, name, owner, exit, endedAtMs }: SharedProcess): void {
    if (exit === null) return;
    const removedAtMs = Date.now();
    const [oldest] = this.#ended.keys();
    if (oldest !== undefined && this.#ended.size >= ENDED_PROCESS_RECORDS) this.#ended.delete(oldest);
    const { exitCode } = exit;
    this.#ended.set(ref, { ref, name, owner, exitCode, endedAtMs: endedAtMs ?? removedAtMs, removedAtMs });
  }

  #lastNamed(name: string, owner: string): EndedProcess | undefined {
    return [...this.#ended.values()].findLast((ended) => ended.owner === owner && ended.name === name);
  }
}

/** Whether a reader may read a process, or what is kept of one. */
export function mayRead({ owner, observe }: Reader, process: { readonly owner: string }): boolean {
  return observe || process.owner === owner;
}

/** Digits and letters that cannot be mistaken for each other. */
const REF_ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
