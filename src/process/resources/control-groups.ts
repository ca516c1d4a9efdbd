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
 * The control groups (version 2) that this process may make: one for each limited program and each limited session, beside a leaf
 * for the server, because a group that hands on controllers has no members of its own. The programs of a limited session have their
 * groups in that of the session. Nothing is touched before the first program asks for it; then what servers have left that died is
 * removed. The calls are synchronous: these file systems live in the kernel and do not hang.
 */
export class ControlGroups {
  readonly #home: string;
  readonly #own: string;
  /** Made and not removed yet, in the order they were made. */
  readonly #groups = new Set<ControlGroup>();
  /** Those that nobody wants any more. Each has a member, so that there are no more of them than processes. */
  readonly #left = new Set<ControlGroup>();
  readonly #owner: GroupOwner = {
    removed: (group) => {
      this.#groups.delete(group);
      this.#left.delete(group);
    },
    left: (group) => this.#left.add(group),
  };
  readonly #handedOn = new Set<string>();
  #count = 0;

  /** `home` is the group this process was started in. */
  constructor(home: string) {
    this.#home = home;
    this.#own = join(home, ownName(process.pid));
  }

  /**
   * A new group for a program with these limits, among those of its session where that is limited. Throws ProcessError when the system
   * does not allow it or the session has too many processes.
   */
  create(limits: ResourceLimits, session: SessionLimits | null = null): ControlGroup {
    return refusing(() => {
      this.#cleanUp();
      const around = session?.group((shared) => this.#createForSession(shared)) ?? null;
      around?.requireRoom();
      const settings = programSettings(limits, session !== null && session.limits.memoryBytes !== null);
      const controllers = controllersOf(settings);
      this.#handOn(controllers);
      const path = around?.place(controllers) ?? this.#freePath('');
      makeGroup(path, settings);
      return this.#made(new ControlGroup(path, this.#owner));
    });
  }

  /** Removes what is left; to be called when no program is. Resolves when that is done or takes too long. */
  async close(): Promise<void> {
    for (let attempt = 0; attempt < CGROUP_CLOSE_ATTEMPTS && this.#groups.size > 0; attempt++) {
      if (attempt > 0) await delay(CGROUP_CLOSE_RETRY_MS);
      // Those of programs are younger than that of their session, and have to go first.
      for (const group of [...this.#groups].reverse()) group.tryRemove();
    }
  }

  #createForSession(limits: ResourceLimits): SessionGroup {
    const settings = sessionSettings(limits);
    this.#handOn(controllersOf(settings));
    const path = this.#freePath('s');
    makeGroup(path, settings);
    return this.#made(new SessionGroup(path, limits.pids, this.#owner));
  }

  #made<T extends ControlGroup>(group: T): T {
    this.#groups.add(group);
    return group;
  }

  /** Removes what dead servers have left, once, and some of what this one had to leave. */
  #cleanUp(): void {
    if (!CLEANED.has(this.#home)) removeLeftovers(this.#home);
    CLEANED.add(this.#home);
    for (const group of [...this.#left].slice(0, CGROUP_LATE_REMOVALS)) {
      if (group.tryRemove()) continue;
      // The others have their turn first.
      this.#left.delete(group);
      this.#left.add(group);
    }
  }

  /** One that a server with the same number has left, with something in it, keeps its name. */
  #freePath(kind: string): string {
    let path: string;
    do path = `${this.#own}-${kind}${++this.#count}`;
    while (existsSync(path));
    return path;
  }

  /** Hands the controllers on to the groups below; the members of this group make way first. */
  #handOn(controllers: readonly string[]): void {
    const missing = controllers.filter((controller) => !this.#handedOn.has(controller));
    if (missing.length === 0) return;
    const control = join(this.#home, 'cgroup.subtree_control');
    const active = readWords(control);
    const wanted = missing.filter((controller) => !active.includes(controller));
    if (wanted.length > 0) {
      this.#moveOwnProcesses();
      writeFileSync(control, wanted.map((controller) => `+${controller}`).join(' '));
    }
    for (const controller of missing) this.#handedOn.add(controller);
  }

  /** Moves the server and what it runs into the leaf; strangers stay, and keep the controllers from being handed on. */
  #moveOwnProcesses(): void {
    mkdirSync(this.#own, { recursive: true });
    const leaf = new ControlGroup(this.#own);
    for (const pid of readWords(join(this.#home, 'cgroup.procs')).map(Number)) {
      if (descendsFromUs(pid)) leaf.add(pid);
    }
  }
}

/** The control groups this process may use, or why it has none. Nothing is changed by looking. */
export function findControlGroups(proc = '/proc/self'): ControlGroups | { readonly obstacle: string } {
  try {
    const path = /^0::(.*)$/m.exec(readFileSync(join(proc, 'cgroup'), 'utf8'))?.[1];
    const mount = unifiedMount(readFileSync(join(proc, 'mountinfo'), 'utf8'));
    if (path === undefined || mount === null) return { obstacle: 'this system has no cgroup v2' };
    const home = join(mount, path);
    const controllers = readWords(join(home, 'cgroup.controllers'));
    const missing = ['memory', 'pids', 'cpu'].filter((name) => !controllers.includes(name));
    if (missing.length > 0) return { obstacle: `${home} has no controller for ${missing.join(', ')}` };
    // Containers often see the groups and may not change them. Who moves a process must be allowed to where both groups are.
    for (const changed of ['', 'cgroup.procs', 'cgroup.subtree_control'])
      accessSync(join(home, changed), constants.W_OK);
    return new ControlGroups(home);
  } catch (error) {
    return { obstacle: (error as Error).message };
  }
}

/** The refusal of a limit that cannot be enforced. */
export function unavailable(obstacle: string): ProcessError {
  return new ProcessError(
    'limitUnavailable',
    `limits of pids and cpuPercent, and of sessions, need a delegated cgroup v2 (systemd: Delegate=yes), which this server does not have: ${obstacle}`,
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

/** Where this process has cleaned up: a second server in it must not take an idle group of the first for a leftover. */
const CLEANED = new Set<string>();

/** Removes the empty groups of servers that are gone, which a server with the number of this one is, too. */
function removeLeftovers(home: string): void {
  for (const name of readdirSync(home)) {
    const pid = Number(/^exec-server-(\d+)(-s?\d+)?$/.exec(name)?.[1] ?? Number.NaN);
    if (Number.isNaN(pid) || (pid !== process.pid && trySignal(pid, 0))) continue;
    const path = join(home, name);
    for (const inner of programsIn(path)) new ControlGroup(join(path, inner)).tryRemove();
    new ControlGroup(path).tryRemove();
  }
}

/** The groups of programs in one of a session; none when another server has removed that meanwhile. */
function programsIn(path: string): string[] {
  try {
    return readdirSync(path).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** The mount point of the unified hierarchy: what stands fifth, where the type behind the dash is cgroup2. */
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
