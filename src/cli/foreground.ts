import { readFileSync } from 'node:fs';

/**
 * Whether this process may read from its terminal: the system stops a background job that does. Compares the process group with that of
 * the terminal, fields 5 and 8 of /proc/PID/stat (proc_pid_stat(5)).
 */
export function isForeground(): boolean {
  try {
    const text = readFileSync('/proc/self/stat', 'latin1');
    const [, , , group, , , terminalGroup] = text.slice(text.lastIndexOf(')') + 1).split(' ');
    return group === terminalGroup;
  } catch {
    return true;
  }
}
