import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ProcessError } from '../errors.ts';
import { CGROUP_CPU_PERIOD_US, CGROUP_REMOVE_ATTEMPTS, CGROUP_REMOVE_RETRY_MS } from '../limits.ts';
import type { ResourceLimits } from './resource-limits.ts';

/** Learns what happened to a group that was released. */
export interface GroupOwner {
  removed(group: ControlGroup): void;
  /** Still has a member, so it cannot be removed. */
  leftOver(group: ControlGroup): void;
}

/** A control group (cgroup v2) that limits processes. The calls are synchronous: the cgroup file system is in memory. */
export class ControlGroup {
  readonly path: string;
  readonly #owner: GroupOwner | null;
  /** Prevents a second removal: another server in this process may have made a group with the same name. */
  #removed = false;

  constructor(path: string, owner: GroupOwner | null = null) {
    this.path = path;
    this.#owner = owner;
  }

  /**
   * Adds a process with its threads; false when it is gone or already a member. Throws the system's error when it cannot be added
   * and so runs without limits.
   */
  add(pid: number): boolean {
    if (this.#has(pid)) return false;
    try {
      writeFileSync(join(this.path, 'cgroup.procs'), String(pid));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
      throw error;
    }
  }

  #has(pid: number): boolean {
    try {
      return readWords(join(this.path, 'cgroup.procs')).includes(String(pid));
    } catch {
      return false;
    }
  }

  /** Whether the kernel has killed a member because memory ran out, in this group or in one around it. */
  outOfMemory(): boolean {
    try {
      const events = readFileSync(join(this.path, 'memory.events'), 'latin1');
      return /^oom_kill [1-9]/m.test(events);
    } catch {
      return false;
    }
  }

  /** Removes the group once its last member is gone, which may take a moment. */
  remove(attempts = CGROUP_REMOVE_ATTEMPTS): void {
    if (this.tryRemove()) return;
    if (attempts <= 1) this.#owner?.leftOver(this);
    else setTimeout(() => this.remove(attempts - 1), CGROUP_REMOVE_RETRY_MS).unref();
  }

  /** Removes the group unless it has members. Returns whether it is gone. */
  tryRemove(): boolean {
    if (this.#removed) return true;
    try {
      rmdirSync(this.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return false;
    }
    this.#removed = true;
    this.#owner?.removed(this);
    return true;
  }
}

/** How many processes and threads a group may have. */
interface MaxPids {
  /** Null is no limit. */
  readonly count: number | null;
  /** Whose they are, for errors. */
  readonly holder: string;
}

/** The group of a session. It contains only the groups of the session's programs, and no processes. */
export class SessionGroup extends ControlGroup {
  readonly #maxPids: MaxPids;
  readonly #delegated = new Set<string>();
  #count = 0;

  constructor(path: string, maxPids: MaxPids, owner: GroupOwner | null = null) {
    super(path, owner);
    this.#maxPids = maxPids;
  }

  /** A path for the group of another program, with the controllers that it needs. Throws the system's error. */
  newProgramPath(controllers: readonly string[]): string {
    const missing = controllers.filter((controller) => !this.#delegated.has(controller));
    if (missing.length > 0) {
      writeFileSync(join(this.path, 'cgroup.subtree_control'), missing.map((name) => `+${name}`).join(' '));
      for (const controller of missing) this.#delegated.add(controller);
    }
    return join(this.path, String(++this.#count));
  }

  /**
   * Throws ProcessError when the session has its maximum of processes. The kernel keeps the processes themselves from starting
   * others, but lets the server add one.
   */
  requireFreePid(): void {
    const { count: max, holder } = this.#maxPids;
    if (max === null) return;
    const count = Number(readWords(join(this.path, 'pids.current'))[0]);
    if (count < max) return;
    throw new ProcessError(
      'tooManyProcesses',
      `${holder} have ${count} processes and threads, the configured maximum (maxSessionPids)`,
    );
  }
}

/** Creates the directory of a group and sets its limits; removes it when that fails. */
export function makeGroup(path: string, settings: readonly GroupSetting[]): void {
  mkdirSync(path);
  try {
    for (const { file, value, optional } of settings) setValue(join(path, file), value, optional);
  } catch (error) {
    new ControlGroup(path).tryRemove();
    throw error;
  }
}

function setValue(file: string, value: string, optional: boolean): void {
  try {
    writeFileSync(file, value);
  } catch (error) {
    if (!optional) throw new Error(`${basename(file)}: ${(error as Error).message}`);
  }
}

/** A value for one file of a control group. */
interface GroupSetting {
  readonly file: string;
  readonly value: string;
  /** Whether the file may be missing in some kernels. */
  readonly optional: boolean;
}

/** The settings of a program's group. `inLimitedMemory` is true in a session with a memory limit. */
export function programSettings(limits: ResourceLimits, inLimitedMemory: boolean): GroupSetting[] {
  const settings = limitSettings(limits);
  // The kernel kills the whole program: the rest would run on without one of its processes.
  if (limits.memoryBytes !== null || inLimitedMemory) settings.push(setting('memory.oom.group', 1, true));
  return settings;
}

/** The settings of a session's group. When its memory runs out the kernel kills one program, not all of them. */
export function sessionSettings(limits: ResourceLimits): GroupSetting[] {
  return limitSettings(limits);
}

/** The controllers that provide the files of these settings. */
export function controllersOf(settings: readonly GroupSetting[]): string[] {
  return [...new Set(settings.map(({ file }) => file.split('.', 1)[0]!))];
}

/** The words of a kernel file. */
export function readWords(file: string): string[] {
  return readFileSync(file, 'latin1')
    .split(/\s+/)
    .filter((word) => word !== '');
}

function limitSettings({ memoryBytes, pids, cpuPercent }: ResourceLimits): GroupSetting[] {
  const settings: GroupSetting[] = [];
  if (memoryBytes !== null) {
    settings.push(setting('memory.max', memoryBytes), setting('memory.swap.max', 0, true));
  }
  if (pids !== null) settings.push(setting('pids.max', pids));
  if (cpuPercent !== null) {
    const quota = Math.ceil((cpuPercent * CGROUP_CPU_PERIOD_US) / 100);
    settings.push(setting('cpu.max', `${quota} ${CGROUP_CPU_PERIOD_US}`));
  }
  return settings;
}

function setting(file: string, value: number | string, optional = false): GroupSetting {
  return { file, value: String(value), optional };
}
