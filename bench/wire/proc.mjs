// Reads the state of a process from /proc.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

let ticksPerSecond = 0;

/** Seconds of CPU the process has used, all its threads but none of its children. @param {number} pid */
export function cpuSeconds(pid) {
  ticksPerSecond ||= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Resident memory now, in bytes. @param {number} pid */
export function residentBytes(pid) {
  return statusBytes(pid, 'VmRSS');
}

/** The most resident memory the process ever had, in bytes. @param {number} pid */
export function peakResidentBytes(pid) {
  return statusBytes(pid, 'VmHWM');
}

/** Bytes the process has passed to write(2) so far. @param {number} pid */
export function writtenBytes(pid) {
  return Number(/^wchar: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'latin1'))[1]);
}

/** The pids of the process's children. @param {number} pid */
export function childrenOf(pid) {
  const lists = readdirSync(`/proc/${pid}/task`).map((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1'),
  );
  return lists.join(' ').split(' ').filter(Boolean).map(Number);
}

function statusBytes(pid, name) {
  const line = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  return Number(line[1]) * 1024;
}
