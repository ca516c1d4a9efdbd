import { readFileSync } from 'node:fs';
import { CGROUP_CPU_PERIOD_US } from '../limits.ts';
import type { ResourceLimits } from './resource-limits.ts';

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
