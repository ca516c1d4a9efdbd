import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { isLoopback } from '../../listener/listen-url.ts';
import { quoteValue } from '../../server/config/values.ts';
import { type CommandResult, type Host, printed } from '../commands.ts';
import { RunError, UsageError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { SERVICE } from '../specs/service-spec.ts';
import { readText, removeFile, stateOf, writeInstalled, writeNew } from './installed-file.ts';
import { planService, requireReadableProgram, type Service, type ServiceFlags } from './service-plan.ts';
import { systemctl } from './systemctl.ts';
import type { ServicePlan } from './unit-files.ts';

/** Installs, removes or describes a service of systemd. */
export async function serviceCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('service', argv, SERVICE.flags);
  const [verb = '', extra] = positionals;
  if (!Object.hasOwn(SERVICE.verbs, verb)) {
    const what = verb === '' ? 'nothing to do' : `unknown action ${quoteValue(verb)}`;
    throw new UsageError(`${what}; write install, uninstall or status`, 'service');
  }
  if (extra !== undefined) throw new UsageError(`unexpected argument ${quoteValue(extra)}`, 'service');
  const service = planService(flags, host.env);
  if (verb === 'status') return status(service, flags, host.env);
  if (verb === 'uninstall') return uninstall(service, flags, host.env);
  requireReadableProgram(service.plan);
  return flags['dry-run'] ? printed(listFiles(service)) : install(service, flags, host.env);
}

/** All files, each below its path. The token does not exist yet. */
function listFiles(service: Service): string {
  const { plan, units, environment } = service;
  const digest = plan.kind === 'server' ? 'SHA-256 of the token, made on install' : '';
  const shown = [...units, environment(digest)].map(({ path, text }) => `## ${path}\n\n${text}`);
  return [...shown, `## ${plan.secretFile}\n\na random ${secretWord(service)}, made on install\n`].join('\n');
}

function secretWord({ plan }: Service): 'token' | 'secret' {
  return plan.kind === 'server' ? 'token' : 'secret';
}

function install(service: Service, flags: ServiceFlags, env: NodeJS.ProcessEnv): CommandResult {
  requireRoot(service);
  const { plan, name, units } = service;
  if (plan.runAs !== null) requireAccount(plan.runAs);
  const manager = systemctl(plan.user, env);
  // Fails before anything is written where systemd does not run.
  manager.run('show-environment');
  const changed = units.map(({ path }) => path).filter((path) => stateOf(path) === 'changed');
  if (changed.length > 0 && !flags.force) {
    throw new RunError(
      `${changed.join(' and ')} exist and were changed; keep the changes in '${managerOf(plan)} edit ${name}.service', or replace the files with --force`,
    );
  }
  const isNew = units.every(({ path }) => stateOf(path) === 'absent');
  const written: string[] = [];
  try {
    writeSecrets(service, written);
    for (const unit of units) {
      if (stateOf(unit.path) === 'absent') written.push(unit.path);
      writeInstalled(unit);
    }
  } catch (error) {
    for (const path of written) removeFile(path);
    throw error;
  }
  manager.run('daemon-reload');
  manager.run('enable', '--now', `${name}.socket`);
  return printed(installedText(service, isNew));
}

/** Writes the token and the settings, unless they exist. Adds their paths to `written`. */
function writeSecrets({ plan, environment }: Service, written: string[]): void {
  const { environmentFile, secretFile } = plan;
  if (existsSync(secretFile) && readText(secretFile)?.trim() === '') {
    throw new RunError(`${secretFile} is empty; remove it, and install creates a new one`);
  }
  // Settings that exist name the token that they belong to.
  if (!existsSync(secretFile) && !(plan.kind === 'server' && existsSync(environmentFile))) {
    writeNew(secretFile, `${randomBytes(SECRET_BYTES).toString('base64url')}\n`, OWNER_ONLY);
    written.push(secretFile);
  }
  if (existsSync(environmentFile)) return;
  const token = readText(secretFile)?.trim() ?? '';
  writeInstalled(environment(createHash('sha256').update(token).digest('hex')));
  written.push(environmentFile);
}

const SECRET_BYTES = 32;
const OWNER_ONLY = 0o600;

/** systemd starts no service as an account that does not exist. */
function requireAccount(name: string): void {
  if (spawnSync('id', ['-u', name], { stdio: 'ignore' }).status === 0) return;
  throw new RunError(
    `--run-as: there is no account ${quoteValue(name)}; create it with 'useradd --system ${name}'`,
  );
}

function installedText(service: Service, isNew: boolean): string {
  const { plan, name } = service;
  const { user, kind, listen, environmentFile, secretFile } = plan;
  const manager = managerOf(plan);
  const next =
    kind === 'server'
      ? `Try it: exec-server run -E ${listen} --token-file ${secretFile} echo hello\n`
      : `Create a token: exec-server relay token --secret-file ${secretFile} --role executor --environment NAME\n`;
  return [
    `${name}.socket listens on ${plan.stream}; the first connection starts ${name}.service\n`,
    existsSync(secretFile) ? `${secretWord(service)}: ${secretFile}\n` : '',
    `settings: ${environmentFile}\n`,
    isNew
      ? `${needsFor(plan)}${next}`
      : `To use changed files now: ${manager} stop ${name}.service && ${manager} restart ${name}.socket\n`,
    user ? 'It ends when you log out; `loginctl enable-linger` keeps it.\n' : '',
  ].join('');
}

/** The command that manages the units. */
function managerOf({ user }: ServicePlan): string {
  return `systemctl${user ? ' --user' : ''}`;
}

/** What the settings must have before the service can start. */
function needsFor({ kind, listen }: ServicePlan): string {
  const needs = (what: string) => `${listen} needs ${what} in the settings before the first connection\n`;
  if (/^wss:/.test(listen)) return needs('EXEC_SERVER_TLS_CERT and EXEC_SERVER_TLS_KEY');
  if (/^https:/.test(listen)) return needs('--tls-cert FILE --tls-key FILE in RELAY_OPTIONS');
  const isOpen = kind === 'relay' && !isLoopback(new URL(listen).hostname.replace(/^\[|\]$/g, ''));
  return isOpen
    ? needs('--insecure-no-tls in RELAY_OPTIONS, and a proxy in front of it that provides TLS,')
    : '';
}

function uninstall(service: Service, flags: ServiceFlags, env: NodeJS.ProcessEnv): CommandResult {
  requireRoot(service);
  const { plan, name, units } = service;
  const { environmentFile, secretFile, user, kind } = plan;
  const files = [...units.map(({ path }) => path), environmentFile, secretFile].filter((path) =>
    existsSync(path),
  );
  if (files.length === 0) throw new RunError(`${name} is not installed${user ? ' for this user' : ''}`);
  const manager = systemctl(user, env);
  // systemctl fails for units that do not exist: an earlier call may have removed them and kept the settings.
  const installed = units.map(({ path }) => path).filter((path) => existsSync(path));
  if (installed.length > 0) manager.run('disable', '--now', ...installed.map((path) => basename(path)));
  const isKept = (path: string) => !flags.force && stateOf(path) === 'changed';
  const kept = files.filter((path) => path !== secretFile && isKept(path));
  // Settings that are kept belong to the token.
  if (kept.includes(environmentFile) && files.includes(secretFile)) kept.push(secretFile);
  const removed = files.filter((path) => !kept.includes(path));
  for (const path of removed) removeFile(path);
  manager.run('daemon-reload');
  const dropIns = units.map(({ path }) => `${path}.d`).filter((path) => existsSync(path));
  const state =
    user || kind === 'relay' ? [] : ['/var/lib/exec-server (files of programs, if there are any)'];
  const lines = [
    ...removed.map((path) => `removed ${path}\n`),
    ...kept.map(
      (path) => `kept ${path}, because it was changed or belongs to a changed file (--force removes it)\n`,
    ),
    ...dropIns.map((path) => `kept ${path} (changes by '${managerOf(plan)} edit')\n`),
    ...state.map((path) => `kept ${path}\n`),
  ];
  return printed(lines.join(''));
}

function requireRoot({ plan }: Service): void {
  if (plan.user || process.geteuid?.() === 0) return;
  throw new RunError('a service of the system needs root: repeat this with sudo, or use --user');
}

function status(service: Service, { json = false }: ServiceFlags, env: NodeJS.ProcessEnv): CommandResult {
  const { plan, name, units } = service;
  const paths = [...units.map(({ path }) => path), plan.environmentFile, plan.secretFile];
  const states = paths.map((path) => ({
    path,
    state: path === plan.secretFile ? presence(path) : stateOrHidden(path),
  }));
  const installed = units.every(({ path }) => existsSync(path));
  const report = {
    name,
    installed,
    socket: installed ? activity(`${name}.socket`, plan.user, env) : 'absent',
    service: installed ? activity(`${name}.service`, plan.user, env) : 'absent',
    files: states,
  };
  const exitCode = installed ? 0 : 1;
  if (json) return { text: `${JSON.stringify(report, null, 2)}\n`, exitCode };
  const lines = [
    `${name}.socket: ${report.socket}\n`,
    `${name}.service: ${report.service}\n`,
    ...states.map(({ path, state }) => `${path}: ${state}\n`),
  ];
  return { text: lines.join(''), exitCode };
}

function presence(path: string): string {
  return existsSync(path) ? 'present' : 'absent';
}

/** Only root may read the settings of the system's service. */
function stateOrHidden(path: string): string {
  try {
    return stateOf(path);
  } catch {
    return 'not readable';
  }
}

/** The state that systemd reports, such as `active (listening)`, or why it cannot. */
function activity(unit: string, user: boolean, env: NodeJS.ProcessEnv): string {
  try {
    const manager = systemctl(user, env);
    return `${manager.property(unit, 'ActiveState')} (${manager.property(unit, 'SubState')})`;
  } catch (error) {
    return `unknown: ${(error as Error).message}`;
  }
}
