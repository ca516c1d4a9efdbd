import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/**
 * Empties the memory from which /proc/PID/environ is read, so that no program, whoever runs it, finds there what this one was
 * given. `process.env` stays as it is: each variable is first moved to memory of its own. A system without /proc has nothing to
 * empty. Must run before the process is made undumpable, after which its memory can no longer be opened.
 */
export function hideOwnEnvironment(): void {
  if (process.platform !== 'linux') return;
  for (const [name, value] of Object.entries(process.env)) process.env[name] = value;
  try {
    const { start, end } = environmentBlock();
    const memory = openSync('/proc/self/mem', 'r+');
    try {
      writeSync(memory, Buffer.alloc(end - start), 0, end - start, start);
    } finally {
      closeSync(memory);
    }
  } catch {
    // Without /proc nobody can read the block either; where only writing is forbidden, the memory is protected all the same.
  }
}

/** Where the kernel put the initial environment: fields 50 and 51 of stat, counted behind the name, which may hold anything. */
function environmentBlock(): { readonly start: number; readonly end: number } {
  const stat = readFileSync('/proc/self/stat', 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { start: Number(fields[ENV_START]), end: Number(fields[ENV_START + 1]) };
}

/** Field 50, where the first behind the name is field 3. */
const ENV_START = 47;
