import type { Readable, Writable } from 'node:stream';
import { suggestionFor } from '../base/suggestion.ts';
import { quoteValue } from '../server/config/values.ts';
import type { CommandSpec } from './command-spec.ts';
import { type FailureStyle, PROGRAM_FAILURES, UsageError } from './failures.ts';
import { beforeDashes, beforeProgram } from './flags.ts';

/** What a command uses of its process. Tests pass their own. */
export interface Host {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Whether a person reads stdout and stderr on a terminal. */
  readonly isTerminal: boolean;
  /** Shows the stack of an unexpected error. */
  debug: boolean;
  /** How failures are reported. */
  failures: FailureStyle;
  /** Reports SIGINT, SIGTERM and SIGHUP, and `others`, which end the process if they are not named. */
  onSignal(listener: (signal: string) => void, others?: readonly NodeJS.Signals[]): void;
  /** Calls the listener when the process is asked to drain (SIGUSR2). */
  onDrainSignal(listener: () => void): void;
  /** Keeps SIGHUP from ending the process before `onSignal` is called: it asks a server to reload, also one that starts. */
  surviveHangup(): void;
  /** Runs `cleanup` when the process exits, however it does. */
  onExit(cleanup: () => void): void;
  /** Ends the process immediately. */
  exit(code: number): void;
}

/** What a command prints when it ends, and its exit code. */
export interface CommandResult {
  readonly text: string;
  /** Lines for stderr, where `text` is for another program. */
  readonly details?: string;
  /** What the error says, besides the reason, when `text` cannot be written. */
  readonly unwritten?: string;
  readonly exitCode: number;
}

/** What commands are about. The help lists them in this order. */
export const GROUPS = [
  'Programs',
  'Recordings',
  'Files and ports',
  'Environments',
  'Servers',
  'Relays',
  'Tools',
] as const;

/** A command of the program. Its code is loaded when it runs, and its description when help or completion needs it. */
export interface Command {
  readonly name: string;
  /** Other names that do the same. */
  readonly aliases?: readonly string[];
  readonly group: (typeof GROUPS)[number];
  /** At most 24 characters: the list of commands has two columns. */
  readonly summary: string;
  /** Whether the command line of another program follows the flags. Flags behind its name are its own. */
  readonly takesProgram?: true;
  spec(): Promise<CommandSpec>;
  /** Runs the command with the arguments that follow its name. */
  run(argv: readonly string[], host: Host): Promise<CommandResult>;
}

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'run',
    group: 'Programs',
    summary: 'Run a program',
    takesProgram: true,
    spec: async () => (await import('./specs/run-specs.ts')).RUN,
    run: async (argv, host) => (await import('./programs/run-command.ts')).runCommand(argv, host),
  },
  {
    name: 'shell',
    group: 'Programs',
    summary: 'Open a shell',
    spec: async () => (await import('./specs/run-specs.ts')).SHELL,
    run: async (argv, host) => (await import('./programs/shell-command.ts')).shellCommand(argv, host),
  },
  {
    name: 'attach',
    group: 'Programs',
    summary: 'Show a running program',
    spec: async () => (await import('./specs/run-specs.ts')).ATTACH,
    run: async (argv, host) => (await import('./programs/attach-command.ts')).attachToProgram(argv, host),
  },
  {
    name: 'ps',
    group: 'Programs',
    summary: 'List programs',
    spec: async () => (await import('./specs/process-specs.ts')).PS,
    run: async (argv, host) => (await import('./programs/ps.ts')).psCommand(argv, host),
  },
  {
    name: 'logs',
    group: 'Programs',
    summary: 'Print their output',
    spec: async () => (await import('./specs/process-specs.ts')).LOGS,
    run: async (argv, host) => (await import('./programs/logs.ts')).logsCommand(argv, host),
  },
  {
    name: 'wait',
    group: 'Programs',
    summary: 'Wait for their exit',
    spec: async () => (await import('./specs/process-specs.ts')).WAIT,
    run: async (argv, host) => (await import('./programs/wait.ts')).waitCommand(argv, host),
  },
  {
    name: 'kill',
    group: 'Programs',
    summary: 'End or signal them',
    spec: async () => (await import('./specs/process-specs.ts')).KILL,
    run: async (argv, host) => (await import('./programs/kill.ts')).killCommand(argv, host),
  },
  {
    name: 'rm',
    group: 'Programs',
    summary: 'Remove ended ones',
    spec: async () => (await import('./specs/process-specs.ts')).RM,
    run: async (argv, host) => (await import('./programs/kill.ts')).rmCommand(argv, host),
  },
  {
    name: 'console',
    group: 'Programs',
    summary: 'Open the web console',
    spec: async () => (await import('./specs/console-spec.ts')).CONSOLE,
    run: async (argv, host) => (await import('./console/console-command.ts')).consoleCommand(argv, host),
  },
  {
    name: 'recordings',
    group: 'Recordings',
    summary: 'List recordings',
    spec: async () => (await import('./specs/recording-specs.ts')).RECORDINGS,
    run: async (argv, host) =>
      (await import('./recordings/recordings-command.ts')).recordingsCommand(argv, host),
  },
  {
    name: 'play',
    group: 'Recordings',
    summary: 'Play a recording',
    spec: async () => (await import('./specs/recording-specs.ts')).PLAY,
    run: async (argv, host) => (await import('./recordings/play-command.ts')).playCommand(argv, host),
  },
  {
    name: 'export',
    group: 'Recordings',
    summary: 'Convert a recording',
    spec: async () => (await import('./specs/recording-specs.ts')).EXPORT,
    run: async (argv, host) => (await import('./recordings/export-command.ts')).exportCommand(argv, host),
  },
  {
    name: 'cp',
    group: 'Files and ports',
    summary: 'Copy files',
    spec: async () => (await import('./specs/copy-spec.ts')).CP,
    run: async (argv, host) => (await import('./files/cp-command.ts')).cpCommand(argv, host),
  },
  {
    name: 'sync',
    group: 'Files and ports',
    summary: 'Copy what differs',
    spec: async () => (await import('./specs/sync-spec.ts')).SYNC,
    run: async (argv, host) => (await import('./sync-command.ts')).syncCommand(argv, host),
  },
  {
    name: 'port-forward',
    group: 'Files and ports',
    summary: 'Reach ports over there',
    spec: async () => (await import('./specs/port-forward-spec.ts')).PORT_FORWARD,
    run: async (argv, host) => (await import('./port-forward-command.ts')).portForwardCommand(argv, host),
  },
  {
    name: 'env',
    group: 'Environments',
    summary: 'Name and test machines',
    spec: async () => (await import('./specs/environment-specs.ts')).ENV,
    run: async (argv, host) => (await import('./env-command.ts')).envCommand(argv, host),
  },
  {
    name: 'use',
    group: 'Environments',
    summary: 'Choose an environment',
    spec: async () => (await import('./specs/environment-specs.ts')).USE,
    run: async (argv, host) => (await import('./use-command.ts')).useCommand(argv, host),
  },
  {
    name: 'proxy',
    group: 'Environments',
    summary: 'Serve ssh connections',
    spec: async () => (await import('./specs/environment-specs.ts')).PROXY,
    run: async (argv, host) => (await import('./proxy-command.ts')).proxyCommand(argv, host),
  },
  {
    name: 'serve',
    group: 'Servers',
    summary: 'Serve clients (default)',
    spec: async () => (await import('./specs/serve-spec.ts')).SERVE,
    run: async (argv, host) => (await import('./serve-command.ts')).serveCommand(argv, host),
  },
  {
    name: 'service',
    group: 'Servers',
    summary: 'Install with systemd',
    spec: async () => (await import('./specs/service-spec.ts')).SERVICE,
    run: async (argv, host) => (await import('./service/service-command.ts')).serviceCommand(argv, host),
  },
  {
    name: 'drain',
    group: 'Servers',
    summary: 'End without interruption',
    spec: async () => (await import('./specs/drain-spec.ts')).DRAIN,
    run: async (argv, host) => (await import('./drain-command.ts')).drainCommand(argv, host),
  },
  {
    name: 'config',
    group: 'Servers',
    summary: 'Show the settings',
    spec: async () => (await import('./specs/serve-spec.ts')).CONFIG,
    run: async (argv, host) => (await import('./config-command.ts')).configCommand(argv, host),
  },
  {
    name: 'token',
    group: 'Servers',
    summary: 'Create a token',
    spec: async () => (await import('./specs/token-spec.ts')).TOKEN,
    run: async (argv) => (await import('./token-command.ts')).tokenCommand(argv),
  },
  {
    name: 'audit',
    group: 'Servers',
    summary: 'Verify an audit log',
    spec: async () => (await import('./specs/small-specs.ts')).AUDIT,
    run: async (argv) => printed(await (await import('./audit-command.ts')).auditCommand(argv)),
  },
  {
    name: 'doctor',
    group: 'Servers',
    summary: 'Test the sandbox',
    spec: async () => (await import('./specs/small-specs.ts')).DOCTOR,
    run: async (argv, host) => (await import('./doctor-command.ts')).doctorCommand(argv, host.env),
  },
  {
    name: 'relay',
    group: 'Relays',
    summary: 'Serve a relay',
    spec: async () => (await import('./specs/relay-spec.ts')).RELAY,
    run: async (argv, host) => (await import('./relay-command.ts')).relayCommand(argv, host),
  },
  {
    name: 'connect',
    aliases: ['forward'],
    group: 'Relays',
    summary: 'Add a server to a relay',
    spec: async () => (await import('./specs/connect-spec.ts')).CONNECT,
    run: async (argv, host) => (await import('./connect-command.ts')).connectCommand(argv, host),
  },
  {
    name: 'mcp',
    group: 'Tools',
    summary: 'Serve tools to an agent',
    spec: async () => (await import('./specs/mcp-spec.ts')).MCP,
    run: async (argv, host) => (await import('./mcp/mcp-command.ts')).mcpCommand(argv, host),
  },
  {
    name: 'completion',
    group: 'Tools',
    summary: 'Complete in your shell',
    spec: async () => (await import('./specs/small-specs.ts')).COMPLETION,
    run: async (argv) => (await import('./completion-command.ts')).completionCommand(argv),
  },
  {
    name: 'help',
    group: 'Tools',
    summary: 'Describe a command',
    spec: async () => (await import('./specs/small-specs.ts')).HELP_COMMAND,
    run: async (argv) => (await import('./help-command.ts')).helpCommand(argv),
  },
  {
    name: 'version',
    group: 'Tools',
    summary: 'Print the version',
    spec: async () => (await import('./specs/small-specs.ts')).VERSION_COMMAND,
    run: async (argv) => (await import('./help-command.ts')).versionCommand(argv),
  },
];

/** What scripts of shells and other commands call. They are in no list, because people do not type them. */
const HIDDEN: Readonly<Record<string, Command['run']>> = {
  __complete: async (argv, host) => (await import('./completion-command.ts')).completeCommand(argv, host),
  '__private-server': async (argv, host) =>
    (await import('./private-server/serve-privately.ts')).privateServerCommand(argv, host),
};

/** Returns the command with this name or alias. */
export function findCommand(name: string): Command | undefined {
  return COMMANDS.find((command) => command.name === name || command.aliases?.includes(name));
}

/** What people type who know docker, kubectl, ssh or rsync. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  exec: 'run',
  stop: 'kill',
  ssh: 'shell',
  scp: 'cp',
  rsync: 'sync',
  list: 'ps',
  log: 'logs',
};

/** The error for a word that is no command. */
export function unknownCommand(name: string): UsageError {
  const names = COMMANDS.flatMap((command) => [command.name, ...(command.aliases ?? [])]);
  const advice =
    (Object.hasOwn(ELSEWHERE, name) ? `did you mean '${ELSEWHERE[name]}'?` : suggestionFor(name, names)) ??
    "'exec-server --help' lists the commands";
  return new UsageError(`unknown command ${quoteValue(name)}; ${advice}`);
}

/** Runs the command of the arguments. Flags of `serve` and `config` may come before the command, and `serve` is the default. */
export async function runCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const result = await runNamed(argv, host);
  if (result !== null) return result;
  const [first] = argv;
  if (first !== undefined && !first.startsWith('-')) throw unknownCommand(first);
  const { serveCommand } = await import('./serve-command.ts');
  return serveCommand(argv, host, null);
}

/** Runs the command that the arguments name first. Returns null when they name none. */
async function runNamed(argv: readonly string[], host: Host): Promise<CommandResult | null> {
  const [name = '', ...rest] = argv;
  const command = findCommand(name);
  if (command === undefined) return Object.hasOwn(HIDDEN, name) ? HIDDEN[name]!(rest, host) : null;
  const own = command.takesProgram ? beforeProgram(rest, (await command.spec()).flags) : beforeDashes(rest);
  const usesEnvironment = USES_ENVIRONMENT.has(command.group);
  const { exitCode } = usesEnvironment ? PROGRAM_FAILURES : host.failures;
  host.failures = { exitCode, json: own.includes('--json') };
  if (!own.some((argument) => argument === '-h' || argument === '--help')) {
    return command.run(rest, host).catch((error: unknown) => {
      // What finds an environment does not know for which command.
      const isUnnamed = error instanceof UsageError && error.command === null;
      throw isUnnamed && usesEnvironment ? new UsageError(error.message, command.name) : error;
    });
  }
  const { commandHelp } = await import('./help.ts');
  return printed(commandHelp(command, await command.spec()));
}

/** Groups whose commands leave every exit code but 2 and 124 to 127 to the program that they run. */
const USES_ENVIRONMENT: ReadonlySet<string> = new Set<Command['group']>([
  'Programs',
  'Recordings',
  'Files and ports',
  'Environments',
]);

/** The result of a command that succeeded. */
export function printed(text: string): CommandResult {
  return { text, exitCode: 0 };
}
