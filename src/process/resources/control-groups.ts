import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ProcessError } from '../errors.ts';
import { CGROUP_CPU_PERIOD_US, CGROUP_REMOVE_ATTEMPTS, CGROUP_REMOVE_RETRY_MS } from '../limits.ts';
import { readProcess } from '../tree/process-table.ts';
import type { ResourceLimits } from './resource-limits.ts';

/**
 * The control groups (version 2) that this process may make: one for each limited program, beside a leaf for the server, because
 * a group that hands on controllers has no members of its own. Nothing is touched before the first program asks for it. The calls
 * are synchronous: these file systems live in the kernel and do not hang.
 */
export class ControlGroups {
  readonly #home: string;
  readonly #own: string;
  #count = 0;
  #enabled = new Set<string>();

  /** `home` is the group this process was started in. */
  constructor(home: string) {
    this.#home = home;
    this.#own = join(home, `exec-server-${process.pid}`);
  }

  /** A new group with these limits. Throws ProcessError when the system does not allow it. */
  create(limits: ResourceLimits): ControlGroup {
    const settings = settingsFor(limits);
    try {
      this.#enable([...new Set(settings.map(({ file }) => file.split('.', 1)[0]!))]);
      const path = `${this.#own}-${++this.#count}`;
      mkdirSync(path);
      const group = new ControlGroup(path);
      try {
        for (const { file, value, optional } of settings) setValue(join(path, file), value, optional);
      } catch (error) {
        group.remove();
        throw error;
      }
      return group;
    } catch (error) {
      throw unavailable((error as NodeJS.ErrnoException).message);
    }
  }

  /** Hands the controllers on to the groups below; the members of this group make way first. */
  #enable(controllers: readonly string[]): void {
    const missing = controllers.filter((controller) => !this.#enabled.has(controller));
    if (missing.length === 0) return;
    const control = join(this.#home, 'cgroup.subtree_control');
    const active = words(control);
    const wanted = missing.filter((controller) => !active.includes(controller));
    if (wanted.length > 0) {
      this.#moveOwnProcesses();
      writeFileSync(control, wanted.map((controller) => `+${controller}`).join(' '));
    }
    for (const controller of missing) this.#enabled.add(controller);
  }

  /** Moves the server and what it runs into the leaf; strangers stay, and keep the controllers from being handed on. */
  #moveOwnProcesses(): void {
    mkdirSync(this.#own, { recursive: true });
    for (const pid of words(join(this.#home, 'cgroup.procs')).map(Number)) {
      if (descendsFromUs(pid)) writeFileSync(join(this.#own, 'cgroup.procs'), String(pid));
    }
  }
}

/** The limits of one program, holding for it and everything it starts. */
export class ControlGroup {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** Takes a process in, with its threads; false when it is gone or was in already. */
  add(pid: number): boolean {
    if (this.#has(pid)) return false;
    try {
      writeFileSync(join(this.#path, 'cgroup.procs'), String(pid));
      return true;
    } catch {
      return false;
    }
  }

  #has(pid: number): boolean {
    try {
      return words(join(this.#path, 'cgroup.procs')).includes(String(pid));
    } catch {
      return false;
    }
  }

  /** Whether the kernel has killed something here because the memory was used up. */
  outOfMemory(): boolean {
    try {
      const events = readFileSync(join(this.#path, 'memory.events'), 'latin1');
      return /^oom_kill [1-9]/m.test(events);
    } catch {
      return false;
    }
  }

  /** Gives the group back once its last member is gone, which may take a moment. */
  remove(attempts = CGROUP_REMOVE_ATTEMPTS): void {
    try {
      rmdirSync(this.#path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || attempts <= 1) return;
      setTimeout(() => this.remove(attempts - 1), CGROUP_REMOVE_RETRY_MS).unref();
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
    const controllers = words(join(home, 'cgroup.controllers'));
    const missing = ['memory', 'pids', 'cpu'].filter((name) => !controllers.includes(name));
    if (missing.length > 0) return { obstacle: `${home} has no controller for ${missing.join(', ')}` };
    return new ControlGroups(home);
  } catch (error) {
    return { obstacle: (error as Error).message };
  }
}

/** The refusal of a limit that cannot be enforced. */
export function unavailable(obstacle: string): ProcessError {
  return new ProcessError(
    'limitUnavailable',
    `limits of pids and cpuPercent need a delegated cgroup v2 (systemd: Delegate=yes), which this server does not have: ${obstacle}`,
  );
}

interface Setting {
  readonly file: string;
  readonly value: string;
  /** Whether a kernel without the file is all right. */
  readonly optional: boolean;
}

function settingsFor({ memoryBytes, pids, cpuPercent }: ResourceLimits): Setting[] {
  const settings: Setting[] = [];
  const set = (file: string, value: number | string, optional = false) =>
    settings.push({ file, value: String(value), optional });
  if (memoryBytes !== null) {
    set('memory.max', memoryBytes);
    set('memory.swap.max', 0, true);
    // All of the program goes together: half of it would run on with a hole in it.
    set('memory.oom.group', 1, true);
  }
  if (pids !== null) set('pids.max', pids);
  if (cpuPercent !== null) {
    set('cpu.max', `${Math.ceil((cpuPercent * CGROUP_CPU_PERIOD_US) / 100)} ${CGROUP_CPU_PERIOD_US}`);
  }
  return settings;
}

function setValue(file: string, value: string, optional: boolean): void {
  try {
    writeFileSync(file, value);
  } catch (error) {
    if (!optional) throw new Error(`${basename(file)}: ${(error as Error).message}`);
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

function words(file: string): string[] {
  return readFileSync(file, 'latin1')
    .split(/\s+/)
    .filter((word) => word !== '');
}

function descendsFromUs(pid: number): boolean {
  for (let at = pid; at > 1; at = readProcess(at)?.parent ?? 0) {
    if (at === process.pid) return true;
  }
  return false;
}
