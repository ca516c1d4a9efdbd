import { spawnSync } from 'node:child_process';
import { RunError } from '../failures.ts';

/** The manager of services: that of the system, or that of the user. */
interface Systemctl {
  /** Runs systemctl and returns its output. Throws RunError when it fails or is not installed. */
  run(...args: string[]): string;
  /** The value of a property of a unit. */
  property(unit: string, name: string): string;
}

/** Runs `systemctl`, with `--user` for the services of the user. */
export function systemctl(user: boolean, env: NodeJS.ProcessEnv): Systemctl {
  const run = (...args: string[]) => {
    const all = [...(user ? ['--user'] : []), ...args];
    const { error, status, stdout, stderr } = spawnSync('systemctl', all, {
      env: { ...env, SYSTEMD_COLORS: '0', SYSTEMD_PAGER: '' },
      encoding: 'utf8',
      timeout: SYSTEMCTL_TIMEOUT_MS,
    });
    if (error !== undefined) throw unavailable(error);
    if (status !== 0) throw failed(all, status, stderr.trim());
    return stdout;
  };
  return {
    run,
    property: (unit, name) => run('show', `--property=${name}`, '--value', unit).trim(),
  };
}

/** How long one call of systemctl may take: starting a unit takes seconds. */
const SYSTEMCTL_TIMEOUT_MS = 90_000;

function unavailable({ code, message }: NodeJS.ErrnoException): RunError {
  return new RunError(
    code === 'ENOENT'
      ? 'systemctl is not installed, so this machine has no services of systemd (in a container, start `exec-server serve` as its program; `--dry-run` prints the files)'
      : `cannot run systemctl: ${message}`,
  );
}

function failed(args: readonly string[], status: number | null, problem: string): RunError {
  const isAbsent = /not been booted with systemd|Failed to connect to .*bus/i.test(problem);
  const advice = isAbsent
    ? ' (systemd does not manage this machine or login: in a container, start `exec-server serve` as its program; for --user, log in or run `loginctl enable-linger`)'
    : '';
  const reason = problem === '' ? `exit code ${status}` : problem;
  return new RunError(`systemctl ${args.join(' ')} failed: ${reason}${advice}`);
}
