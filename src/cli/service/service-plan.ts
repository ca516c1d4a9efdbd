import { userInfo } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { hostInUrl, ListenUrlError, parseListenUrl } from '../../listener/listen-url.ts';
import { quoteValue } from '../../server/config/values.ts';
import { RunError, UsageError } from '../failures.ts';
import type { GivenFlags } from '../flags.ts';
import { ownCommand } from '../own-command.ts';
import type { SERVICE } from '../specs/service-spec.ts';
import type { InstalledFile } from './installed-file.ts';
import { environmentText, type ServicePlan, serviceUnit, socketUnit, unitName } from './unit-files.ts';

export type ServiceFlags = GivenFlags<typeof SERVICE.flags>;

/** A service and its files. */
export interface Service {
  readonly plan: ServicePlan;
  /** `exec-server` or `exec-server-relay`. */
  readonly name: string;
  readonly units: readonly InstalledFile[];
  /** The file with the settings. `digest` is the SHA-256 of the token. */
  environment(digest: string): InstalledFile;
}

/** Decides what a service has. Throws UsageError for a wrong flag, and RunError for a path that no unit can have. */
export function planService(flags: ServiceFlags, env: NodeJS.ProcessEnv, program = ownCommand()): Service {
  const { user = false, relay = false, 'run-as': runAs = null } = flags;
  const kind = relay ? 'relay' : 'server';
  if (user && runAs !== null)
    throw new UsageError('--run-as is for a service of the system, without --user', 'service');
  // systemd.exec(5): names that useradd(8) creates.
  if (runAs !== null && !/^[a-z_][a-z0-9_-]{0,30}\$?$/i.test(runAs)) {
    throw new UsageError(`--run-as: ${quoteValue(runAs)} is not the name of an account`, 'service');
  }
  const listen = flags.listen ?? (relay ? 'http://127.0.0.1:4080' : 'ws://127.0.0.1:4000');
  const name = unitName({ kind });
  const config = user ? configDirectory(env) : '/etc';
  refuseControlCharacters([config, listen, ...program]);
  const at = (file: string) => join(config, 'exec-server', file);
  const secretName = relay ? 'relay-secret' : 'service-token';
  const plan: ServicePlan = {
    kind,
    user,
    runAs,
    listen,
    stream: streamOf(listen, relay),
    program,
    environmentFile: at(`${name}.env`),
    secretFile: at(secretName),
  };
  const folder = join(config, 'systemd', user ? 'user' : 'system');
  const unit = (ending: string, text: string) => ({
    path: join(folder, `${name}.${ending}`),
    mode: 0o644,
    text,
  });
  return {
    plan,
    name,
    units: [unit('socket', socketUnit(plan)), unit('service', serviceUnit(plan))],
    environment: (digest) => ({
      path: plan.environmentFile,
      mode: 0o600,
      text: environmentText(plan, digest),
    }),
  };
}

/** The address of a URL as systemd.socket(5) writes it. Throws UsageError. */
function streamOf(listen: string, relay: boolean): string {
  const forms = relay ? 'http://IP:PORT or https://IP:PORT' : 'ws://IP:PORT, wss://IP:PORT or unix:///PATH';
  const wrong = new UsageError(
    `--listen: ${quoteValue(listen)} is not ${forms} with a fixed port`,
    'service',
  );
  if (relay !== /^https?:/.test(listen)) throw wrong;
  try {
    const address = parseListenUrl(relay ? listen.replace(/^http/, 'ws').replace(/\/$/, '') : listen);
    // systemd replaces specifiers, and trims its lines.
    if (address.kind === 'unix' && !/[%\s\\]/.test(address.path)) return address.path;
    if (address.kind === 'websocket' && address.port !== 0)
      return `${hostInUrl(address.host)}:${address.port}`;
  } catch (error) {
    if (!(error instanceof ListenUrlError)) throw error;
  }
  throw wrong;
}

/** A newline would begin another line of a unit. */
function refuseControlCharacters(values: readonly string[]): void {
  const value = values.find((text) => /\p{Cc}/u.test(text));
  if (value === undefined) return;
  throw new RunError(
    `${quoteValue(value)} has a control character, which a unit of systemd cannot have; use a path without one (XDG_CONFIG_HOME, HOME, --listen, or where exec-server is installed)`,
  );
}

/** An account that systemd allocates cannot read home directories. Throws RunError. */
export function requireReadableProgram({ user, runAs, program }: ServicePlan): void {
  if (user || runAs !== null) return;
  const inHome = program.find((word) => /^\/(?:home|root|run\/user)\//.test(word));
  if (inHome === undefined) return;
  throw new RunError(
    `${inHome} is in a home directory, which an account of its own cannot read; install Node and exec-server for all users (npm install -g), or choose an account with --run-as, or use --user`,
  );
}

function configDirectory({ XDG_CONFIG_HOME: config = '', HOME: home = '' }: NodeJS.ProcessEnv): string {
  return isAbsolute(config) ? config : join(home || userInfo().homedir, '.config');
}
