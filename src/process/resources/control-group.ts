import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ProcessError } from '../errors.ts';
import { CGROUP_CPU_PERIOD_US, CGROUP_REMOVE_ATTEMPTS, CGROUP_REMOVE_RETRY_MS } from '../limits.ts';
import type { ResourceLimits } from './resource-limits.ts';

/** Hears what becomes of a group that is not wanted any more. */
export interface GroupOwner {
  removed(group: ControlGroup): void;
  /** It has a member that does not go. */
  left(group: ControlGroup): void;
}

/** A group of the system that holds processes to limits. The calls are synchronous: these file systems live in the kernel. */
export class ControlGroup {
  readonly path: string;
  readonly #owner: GroupOwner | null;
  /** Another server in this process may have made a group of the same name since. */
  #removed = false;

  constructor(path: string, owner: GroupOwner | null = null) {
    this.path = path;
    this.#owner = owner;
  }

  /**
   * Takes a process in, with its threads; false when it is gone or was in already. Throws what the system says when it has to stay
   * outside, where nothing limits it.
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

  /** Whether the kernel has killed something here because memory was used up, whether that of this group or of one around it. */
  outOfMemory(): boolean {
    try {
      const events = readFileSync(join(this.path, 'memory.events'), 'latin1');
      return /^oom_kill [1-9]/m.test(events);
    } catch {
      return false;
    }
  }

  /** Gives the group back once its last member is gone, which may take a moment. */
  remove(attempts = CGROUP_REMOVE_ATTEMPTS): void {
    if (this.tryRemove()) return;
    if (attempts <= 1) this.#owner?.left(this);
    else setTimeout(() => this.remove(attempts - 1), CGROUP_REMOVE_RETRY_MS).unref();
  }

  /** Whether the group is gone; it stays while it has members. */
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

/** The group of a session. It has no members of its own, only the groups of its programs. */
export class SessionGroup extends ControlGroup {
  readonly #maxPids: number | null;
  readonly #handedOn = new Set<string>();
  #count = 0;

  constructor(path: string, maxPids: number | null, owner: GroupOwner | null = null) {
    super(path, owner);
    this.#maxPids = maxPids;
  }

  /** A path for the group of one more program, under the controllers that it needs. Throws what the system says. */
  place(controllers: readonly string[]): string {
    const missing = controllers.filter((controller) => !this.#handedOn.has(controller));
    if (missing.length > 0) {
      writeFileSync(join(this.path, 'cgroup.subtree_control'), missing.map((name) => `+${name}`).join(' '));
      for (const controller of missing) this.#handedOn.add(controller);
    }
    return join(this.path, String(++this.#count));
  }

  /**
   * Throws ProcessError when the session has as many processes as it may: the kernel keeps them from starting others, but not a
   * process of the server's from being put among them.
   */
  requireRoom(): void {
    if (this.#maxPids === null) return;
    const count = Number(readWords(join(this.path, 'pids.current'))[0]);
    if (count < this.#maxPids) return;
    throw new ProcessError(
      'tooManyProcesses',
      `the programs of this session have ${count} processes and threads, the configured maximum (maxSessionPids)`,
    );
  }
}

/** Makes the directory of a group and sets its limits; nothing is left when that fails. */
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

/** What is written to one file of a control group. */
export interface GroupSetting {
  readonly file: string;
  readonly value: string;
  /** Whether a kernel without the file is all right. */
  readonly optional: boolean;
}

/** The settings of a program's group. `inLimitedMemory` is true for one in a session whose memory is limited. */
export function programSettings(limits: ResourceLimits, inLimitedMemory: boolean): GroupSetting[] {
  const settings = limitSettings(limits);
  // All of the program goes together: half of it would run on with a hole in it.
  if (limits.memoryBytes !== null || inLimitedMemory) settings.push(setting('memory.oom.group', 1, true));
  return settings;
}

/** The settings of a session's group. When its memory is used up one program goes, and not all of them. */
export function sessionSettings(limits: ResourceLimits): GroupSetting[] {
  return limitSettings(limits);
}

/** The controllers that have the files of these settings. */
export function controllersOf(settings: readonly GroupSetting[]): string[] {
  return [...new Set(settings.map(({ file }) => file.split('.', 1)[0]!))];
}

/** The words of a file of the kernel's. */
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
