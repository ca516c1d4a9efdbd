import { randomHex } from '../../base/random-hex.ts';
import type { Capability } from '../../protocol/environment.ts';
import type {
  CallOptions,
  EnvironmentInfo,
  EnvPolicy,
  ExecBackend,
  OutputStream,
  StartOptions,
  StartParams,
  TerminalSize,
} from '../backend.ts';
import type { Deadline } from '../connection/call-limit.ts';
import { kindOf, type OptionNames } from '../connection/option-checks.ts';
import { ClientError } from '../errors.ts';
import { fileUriOf, type PathLike } from '../paths.ts';
import type { ProgramInput } from './input.ts';
import { shellCommand } from './shell-command.ts';

/** A program with its arguments, or a command line for the login shell of the executor's user. */
export type Command = readonly string[] | string;

/** Options of a program. Everything has a default. */
export interface ProgramOptions
  extends Omit<StartOptions, keyof CallOptions>,
    Partial<Pick<StartParams, PassedParams>> {
  /** Working directory. Default: the executor's own; `/` if it reports none. */
  readonly cwd?: PathLike | undefined;
  /** Environment variables, added to the inherited ones. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Which variables of the executor's environment the program inherits. Default: all of them, PATH included. */
  readonly envPolicy?: Partial<EnvPolicy> | undefined;
  /** Runs the program on a terminal, of 24 rows and 80 columns unless you pass a size. TERM is then `xterm-256color` by default. */
  readonly tty?: boolean | TerminalSize | undefined;
  /** Input for stdin, which is closed after it. Without it, and without `pipeStdin`, stdin is empty. */
  readonly input?: ProgramInput | undefined;
  /** An abort terminates the program. */
  readonly signal?: AbortSignal | undefined;
  /** Terminates the program after this time, for as long as this client is connected. `limits.wallMs` is the server's own limit. */
  readonly timeoutMs?: number | undefined;
  /** Receives the text of stdout, or of the terminal. The next text follows when a returned promise is settled. */
  readonly onStdout?: ((text: string) => void | Promise<void>) | undefined;
  /** Receives the text of stderr. */
  readonly onStderr?: ((text: string) => void | Promise<void>) | undefined;
  /** Receives the text of every stream, in order. */
  readonly onOutput?: ((text: string, stream: OutputStream) => void | Promise<void>) | undefined;
  /** A name to find the process by: up to 64 letters, digits, dots, underscores and hyphens. */
  readonly name?: string | undefined;
  /**
   * Keeps the program running when this client is gone, until it exits or is terminated. Its output stays readable for an hour, or for
   * `retainMs`.
   */
  readonly detached?: boolean | { readonly retainMs?: number } | undefined;
  /** Default: a random id. It must be unique within the session. */
  readonly processId?: string | undefined;
}

/** The names of {@link ProgramOptions}. */
export const PROGRAM_OPTIONS: OptionNames<ProgramOptions> = {
  cwd: true,
  env: true,
  envPolicy: true,
  tty: true,
  input: true,
  signal: true,
  timeoutMs: true,
  onStdout: true,
  onStderr: true,
  onOutput: true,
  name: true,
  detached: true,
  processId: true,
  onNetworkPolicyRequest: true,
  onNetworkPolicyDecision: true,
  arg0: true,
  sandbox: true,
  limits: true,
  metadata: true,
  networkProxy: true,
  enforceManagedNetwork: true,
  managedNetwork: true,
  record: true,
  holdOutput: true,
  shellSnapshot: true,
};

/** Throws ClientError when the command is neither a text nor a program with its arguments. */
export function expectCommand(call: string, command: unknown): void {
  const isArgv = Array.isArray(command) && command.length > 0 && command.every(isText);
  if (isArgv || (isText(command) && command !== '')) {
    expectNoNul(call, command);
    return;
  }
  const parts = Array.isArray(command) && command.length > 0 ? 'a list with something else than texts' : null;
  throw new ClientError(
    'invalidInput',
    `the command of \`${call}\` is ${parts ?? (Array.isArray(command) ? 'an empty list' : kindOf(command))}`,
    { hint: "pass a program with its arguments, such as ['ls', '-l'], or a command line for the shell" },
  );
}

/** A program gets its arguments as C strings, which end at a NUL. */
function expectNoNul(call: string, command: unknown): void {
  if (![command].flat().some((part) => (part as string).includes('\0'))) return;
  throw new ClientError('invalidInput', `the command of \`${call}\` contains a NUL character`, {
    hint: 'pass such data as `input`',
  });
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

/** Params of `process/start` that are passed on as they are. */
type PassedParams =
  | 'arg0'
  | 'sandbox'
  | 'limits'
  | 'metadata'
  | 'networkProxy'
  | 'enforceManagedNetwork'
  | 'managedNetwork'
  | 'record'
  | 'holdOutput'
  | 'shellSnapshot';

/** A client or an environment, as far as starting programs is concerned. */
export interface ProgramHost {
  readonly backend: ExecBackend;
  /** The executor's description of itself. */
  info(options?: CallOptions): Promise<EnvironmentInfo>;
}

/** Inherits the whole environment, as a program that was started by hand on the server does. */
const INHERIT_ALL: EnvPolicy = {
  inherit: 'all',
  ignoreDefaultExcludes: true,
  exclude: [],
  set: {},
  includeOnly: [],
};

/** Returns the request that starts the command. Asks the executor for what it does not know yet. */
export async function startParams(
  host: ProgramHost,
  command: Command,
  options: ProgramOptions & { readonly pipeStdin?: boolean | undefined },
  deadline: Deadline,
): Promise<StartParams> {
  const { backend } = host;
  const { cwd, env = {}, envPolicy, tty = false, input, name, detached = false } = options;
  const { pipeStdin = input !== undefined, processId = `run-${randomHex()}` } = options;
  const { arg0, sandbox, limits, metadata, networkProxy, enforceManagedNetwork } = options;
  const { managedNetwork, shellSnapshot, record, holdOutput } = options;
  const defaultCwd = async () => (await backend.defaultCwd?.(deadline.remaining)) ?? null;
  const require = (capability: Capability, option: string) =>
    requireCapability(host, capability, option, deadline.remaining);
  if (limits != null) await require('processLimits', 'limits');
  if (name !== undefined) await require('processSharing', 'name');
  if (detached !== false) await require('processSharing', 'detached');
  if (record) await require('processRecording', 'record');
  if (holdOutput) await require('processHoldOutput', 'holdOutput');
  const lifetime = { type: 'detached', ...(detached !== true && detached) } as const;
  const passed = {
    arg0,
    sandbox,
    limits,
    metadata,
    networkProxy,
    managedNetwork,
    shellSnapshot,
    name,
    record,
    ...(holdOutput && { holdOutput }),
  };
  return {
    processId,
    argv: typeof command === 'string' ? await loginCommand(host, command, deadline) : [...command],
    cwd: cwd === undefined ? ((await defaultCwd()) ?? 'file:///') : await fileUriOf(cwd, defaultCwd),
    env: { ...(tty !== false && { TERM: 'xterm-256color' }), ...env },
    envPolicy: { ...INHERIT_ALL, ...envPolicy },
    tty: tty !== false,
    ...(typeof tty === 'object' && { size: { rows: tty.rows, cols: tty.cols } }),
    pipeStdin,
    ...definedMembers(passed),
    ...(enforceManagedNetwork !== undefined && { enforceManagedNetwork }),
    ...(detached !== false && { lifetime }),
  };
}

async function loginCommand(host: ProgramHost, command: string, deadline: Deadline): Promise<string[]> {
  const { shell } = await host.info(deadline.remaining);
  return shellCommand(shell, command, true);
}

async function requireCapability(
  host: ProgramHost,
  capability: Capability,
  option: string,
  options: CallOptions,
): Promise<void> {
  const { capabilities } = await host.info(options);
  if (capabilities[capability] === true) return;
  throw new ClientError('unsupported', `the server cannot start programs with \`${option}\``, {
    hint: `use a server that announces the capability ${capability}, or leave \`${option}\` out`,
  });
}

/** The members that are not undefined. */
function definedMembers<T extends object>(members: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof T]?: Exclude<T[Name], undefined> };
}
