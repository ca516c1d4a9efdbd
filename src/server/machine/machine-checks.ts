import { findRipgrep } from '../../files/search/ripgrep-engine.ts';
import { loginShell } from '../../process/login-shell.ts';
import { controlGroupsUnavailableReason } from '../../process/resources/control-groups.ts';
import { findProgram } from '../../process/spawn/program-lookup.ts';
import { type Check, missing, ok } from '../../sandbox/self-test/check.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Looks for what the server uses on this machine besides its sandbox. Takes milliseconds. */
export async function machineChecks(env: Environment): Promise<Check[]> {
  return [controlGroups(), await ripgrep(env), ...(await shells(env))];
}

function controlGroups(): Check {
  const reason = controlGroupsUnavailableReason();
  return reason !== null
    ? missing(
        'control groups',
        `process and CPU limits of programs, and all session limits, are unavailable: ${reason}`,
        'start the server as a systemd unit with Delegate=yes (systemd-run --user --scope -p Delegate=yes exec-server)',
      )
    : ok('control groups', 'memory, process and CPU limits work for programs and sessions');
}

async function ripgrep({ PATH = '', EXEC_SERVER_RIPGREP_PATH }: Environment): Promise<Check> {
  const path = EXEC_SERVER_RIPGREP_PATH || (await findRipgrep(PATH));
  return path === null
    ? missing(
        'ripgrep',
        'fs/search uses its built-in engine, which is slower',
        'install the package ripgrep (apt-get install ripgrep, dnf install ripgrep)',
      )
    : ok('ripgrep', path);
}

/** The shells whose login state the server can capture. */
async function shells({ PATH = '' }: Environment): Promise<Check[]> {
  const login = loginShell();
  return Promise.all(
    ['bash', 'zsh'].map(async (name) => {
      const spec = { program: name, cwd: '/', env: { PATH } };
      const path = await findProgram(spec).catch(() => null);
      if (path === null) return missing(name, 'not installed', null);
      return ok(name, login.name === name ? `${path}, the login shell` : path);
    }),
  );
}
