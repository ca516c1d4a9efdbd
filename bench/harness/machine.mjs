import { execFileSync } from 'node:child_process';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { ROOT } from './servers.mjs';

/** The machine and the time of the measurement. */
export function describeMachine() {
  return {
    date: new Date().toISOString(),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    node: process.version,
    commit: commit(),
    load: Number(loadavg()[0].toFixed(2)),
  };
}

/** The commit of this checkout, with a plus sign when there are uncommitted changes; null outside a repository. */
function commit() {
  try {
    const git = (...args) =>
      execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim();
    return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', 'src') === '' ? '' : '+');
  } catch {
    return null;
  }
}
