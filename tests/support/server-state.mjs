import { readdirSync, readFileSync } from 'node:fs';

/** The resources of a server process: descendant processes, descriptors, and memory in bytes. */
export function stateOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return {
    processes: countDescendants(pid),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    memory: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024,
  };
}

/**
 * Waits until a server holds no more than `before` plus `allowance`. Rejects after the timeout.
 * @param {number} pid
 * @param {ReturnType<typeof stateOf>} before
 * @param {{ descriptors: number, memory: number, timeoutMs: number }} allowance
 */
export async function waitUntilIdle(pid, before, allowance) {
  const deadline = performance.now() + allowance.timeoutMs;
  for (;;) {
    const now = stateOf(pid);
    const isIdle =
      now.processes <= before.processes &&
      now.descriptors <= before.descriptors + allowance.descriptors &&
      now.memory <= before.memory + allowance.memory;
    if (isIdle) return now;
    if (performance.now() > deadline) {
      throw new Error(`the server still holds too much: ${JSON.stringify({ before, now })}`);
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
