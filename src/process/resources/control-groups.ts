import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ProcessError } from '../errors.ts';
import { CGROUP_CLOSE_ATTEMPTS, CGROUP_CLOSE_RETRY_MS, CGROUP_LATE_REMOVALS } from '../limits.ts';
import { readProcess, trySignal } from '../tree/process-table.ts';
import {
  ControlGroup,
  controllersOf,
  type GroupOwner,
  makeGroup,
  programSettings,
  readWords,
  SessionGroup,
  sessionSettings,
} from './control-group.ts';
import type { ResourceLimits, SessionLimits } from './resource-limits.ts';

/**
 * The control groups (version 2) of this process: one for each limited program and each limited session, and a leaf for the server
 * itself, because a group that delegates controllers cannot have members. The groups of a limited session's programs are inside
 * the session's group. Nothing is changed before the first limited program starts; then leftovers of dead servers are removed. The
 * calls are synchronous: the cgroup file system is in memory and does not hang.
 */
export class ControlGroups {
  readonly #home: string;
  readonly #own: string;
  /** Groups that exist, in the order of their creation. */
  readonly #groups = new Set<ControlGroup>();
  /** Released groups that could not be removed. Each has a member, so there are no more of them than processes. */
  readonly #leftOver = new Set<ControlGroup>();
  readonly #owner: GroupOwner = {
    removed: (group) => {
      this.#groups.delete(group);
      this.#leftOver.delete(group);
    },
    leftOver: (group) => this.#leftOver.add(group),
  };
  readonly #delegated = new Set<string>();
  #count = 0;

  /** `home` is the group in which this process was started. */
  constructor(home: string) {
    this.#home = home;
    this.#own = join(home, ownName(process.pid));
  }

  /**
   * Creates a group for a program with these limits, inside its session's group if that has limits. Throws ProcessError when the
   * system does not allow it or the session has too many processes.
   */
  create(limits: ResourceLimits, session: SessionLimits | null = null): ControlGroup {
    return refusing(() => {
      this.#cleanUp();
      const around = session?.group(() => this.#createForSession(session)) ?? null;
      around?.requireFreePid();
      const settings = programSettings(limits, session !== null && session.limits.memoryBytes !== null);
      const controllers = controllersOf(settings);
      this.#delegate(controllers);
      const path = around?.newProgramPath(controllers) ?? this.#freePath('');
      makeGroup(path, settings);
      return this.#made(new ControlGroup(path, this.#owner));
    });
  }

  /** Removes all groups, after all programs have ended. Resolves when that is done or takes too long. */
  async close(): Promise<void> {
    for (let attempt = 0; attempt < CGROUP_CLOSE_ATTEMPTS && this.#groups.size > 0; attempt++) {
      if (attempt > 0) await delay(CGROUP_CLOSE_RETRY_MS);
      // The groups of programs are newer than that of their session and must be removed first.
      for (const group of [...this.#groups].reverse()) group.tryRemove();
    }
  }

  #createForSession({ limits, holder }: SessionLimits): SessionGroup {
    const settings = sessionSettings(limits);
    this.#delegate(controllersOf(settings));
    const path = this.#freePath('s');
    makeGroup(path, settings);
    return this.#made(new SessionGroup(path, { count: limits.pids, holder }, this.#owner));
  }

  #made<T extends ControlGroup>(group: T): T {
    this.#groups.add(group);
    return group;
  }

  /** Removes leftovers of dead servers, once, and some of this server's own. */
  #cleanUp(): void {
    if (!CLEANED.has(this.#home)) removeLeftovers(this.#home);
    CLEANED.add(this.#home);
    for (const group of [...this.#leftOver].slice(0, CGROUP_LATE_REMOVALS)) {
      if (group.tryRemove()) continue;
      // The others are tried first next time.
      this.#leftOver.delete(group);
      this.#leftOver.add(group);
    }
  }

  /** Skips the name of a group that a server with the same pid left behind. */
  #freePath(kind: string): string {
    let path: string;
    do path = `${this.#own}-${kind}${++this.#count}`;
    while (existsSync(path));
    return path;
  }

  /** Delegates controllers to the groups below, after it has moved the members of this group. */
  #delegate(controllers: readonly string[]): void {
    const missing = controllers.filter((controller) => !this.#delegated.has(controller));
    if (missing.length === 0) return;
    const control = join(this.#home, 'cgroup.subtree_control');
    const active = readWords(control);
    const wanted = missing.filter((controller) => !active.includes(controller));
    if (wanted.length > 0) {
      this.#moveOwnProcesses();
      writeFileSync(control, wanted.map((controller) => `+${controller}`).join(' '));
    }
    for (const controller of missing) this.#delegated.add(controller);
  }

  /** Moves the server and its programs into the leaf. Other processes stay and prevent the delegation. */
  #moveOwnProcesses(): void {
    mkdirSync(this.#own, { recursive: true });
    const leaf = new ControlGroup(this.#own);
    for (const pid of readWords(join(this.#home, 'cgroup.procs')).map(Number)) {
      if (descendsFromUs(pid)) leaf.add(pid);
    }
  }
}

/** The control groups that this process may use, or why there are none. Only reads. */
export function findControlGroups(
  proc = '/proc/self',
): ControlGroups | { readonly unavailableReason: string } {
  try {
    const path = /^0::(.*)$/m.exec(readFileSync(join(proc, 'cgroup'), 'utf8'))?.[1];
    const mount = unifiedMount(readFileSync(join(proc, 'mountinfo'), 'utf8'));
    if (path === undefined || mount === null) return { unavailableReason: 'this system has no cgroup v2' };
    const home = join(mount, path);
    const controllers = readWords(join(home, 'cgroup.controllers'));
    const missing = ['memory', 'pids', 'cpu'].filter((name) => !controllers.includes(name));
    if (missing.length > 0)
      return { unavailableReason: `${home} has no controller for ${missing.join(', ')}` };
    // Containers often show the groups read-only. Moving a process requires write access to both groups.
    for (const changed of ['', 'cgroup.procs', 'cgroup.subtree_control'])
      accessSync(join(home, changed), constants.W_OK);
    return new ControlGroups(home);
  } catch (error) {
    return { unavailableReason: (error as Error).message };
  }
}

/** Why this process cannot use control groups; null when it can. */
export function controlGroupsUnavailableReason(): string | null {
  const found = findControlGroups();
  return found instanceof ControlGroups ? null : found.unavailableReason;
}

/** The error for a limit that cannot be enforced. */
export function unavailable(unavailableReason: string): ProcessError {
  return new ProcessError(
    'limitUnavailable',
    `limits of pids and cpuPercent, and of sessions, need a delegated cgroup v2 (systemd: Delegate=yes), which this server does not have: ${unavailableReason}`,
  );
}

function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof ProcessError ? error : unavailable((error as Error).message);
  }
}

const ownName = (pid: number) => `exec-server-${pid}`;

/** Where this process has cleaned up. A second server in it must not remove an idle group of the first as a leftover. */
const CLEANED = new Set<string>();

/** Removes the empty groups of dead servers, including an earlier one with the pid of this process. */
function removeLeftovers(home: string): void {
  for (const name of readdirSync(home)) {
    const pid = Number(/^exec-server-(\d+)(-s?\d+)?$/.exec(name)?.[1] ?? Number.NaN);
    if (Number.isNaN(pid) || (pid !== process.pid && trySignal(pid, 0))) continue;
    const path = join(home, name);
    for (const inner of programsIn(path)) new ControlGroup(join(path, inner)).tryRemove();
    new ControlGroup(path).tryRemove();
  }
}

/** The groups of programs in a session's group; empty when another server has removed it meanwhile. */
function programsIn(path: string): string[] {
  try {
    return readdirSync(path).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** The mount point of the unified hierarchy: the fifth field of the line whose file system type is cgroup2. See proc_pid_mountinfo(5). */
function unifiedMount(mountinfo: string): string | null {
  for (const line of mountinfo.split('\n')) {
    const [mount = '', type = ''] = line.split(' - ');
    if (type.startsWith('cgroup2 ')) return mount.split(' ')[4] ?? null;
  }
  return null;
}

function descendsFromUs(pid: number): boolean {
  for (let at = pid; at > 1; at = readProcess(at)?.parent ?? 0) {
    if (at === process.pid) return true;
  }
  return false;
}
