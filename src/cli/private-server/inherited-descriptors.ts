import { readdirSync, readFileSync } from 'node:fs';

/**
 * The descriptors beyond stderr that a program would inherit from this process, such as `exec 200>FILE; flock 200` of a shell. Node closes
 * most of them for the programs that it starts, but none after the first unused number above 15. Empty without /proc.
 */
export function inheritedDescriptors(): number[] {
  try {
    const open = readdirSync('/proc/self/fd').map(Number);
    return open.filter((descriptor) => descriptor > 2 && isInherited(descriptor));
  } catch {
    return [];
  }
}

function isInherited(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1');
    const flags = /^flags:\s*([0-7]+)$/m.exec(info)?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // It was the one that listed the others.
    return false;
  }
}

/** O_CLOEXEC, which Node does not export. It differs on few architectures, none of which Node supports. */
const CLOSE_ON_EXEC = 0o2000000;
