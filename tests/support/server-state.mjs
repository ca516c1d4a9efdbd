import { readdirSync, readFileSync } from 'node:fs';

/** What a server process holds: processes below it, descriptors and memory in bytes. */
export function stateOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return {
    processes: countDescendants(pid),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    memory: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024,
  };
}

/**
 * Waits until a server has no more than it had `before`, apart from what `spare` allows on top; rejects when it takes too long.
 * @param {number} pid
 * @param {ReturnType<typeof stateOf>} before
 * @param {{ descriptors: number, memory: number, timeoutMs: number }} spare
 */
export async function calm(pid, before, spare) {
  const deadline = performance.now() + spare.timeoutMs;
  for (;;) {
    const now = stateOf(pid);
    const isCalm =
      now.processes <= before.processes &&
      now.descriptors <= before.descriptors + spare.descriptors &&
      now.memory <= before.memory + spare.memory;
    if (isCalm) return now;
    if (performance.now() > deadline) {
      throw new Error(`the server keeps too much: ${JSON.stringify({ before, now })}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function countDescendants(pid) {
  const parents = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0]));
    } catch {}
  }
  const isBelow = (candidate) => {
    const parent = parents.get(candidate);
    return parent === pid || (parent !== undefined && parent > 1 && isBelow(parent));
  };
  return [...parents.keys()].filter(isBelow).length;
}
