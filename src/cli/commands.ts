import type { Readable, Writable } from 'node:stream';
import { quoteValue } from '../server/config/values.ts';
import { UsageError } from './failures.ts';

/** What a command uses of its process. Tests pass their own. */
export interface Host {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Shows the stack of an unexpected error. */
  debug: boolean;
  onSignal(listener: (signal: string) => void): void;
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
  readonly exitCode: number;
}

/** A command of the program. */
interface Command {
  readonly name: string;
  /** The command lines that it takes, without the program's name. */
  readonly usage: readonly string[];
  readonly summary: string;
  /** Runs the command with the arguments that follow its name. Its code is loaded here, not when the program starts. */
  run(argv: readonly string[], host: Host): Promise<CommandResult>;
}

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    usage: ['[serve] [options]'],
    summary: 'Serve until a signal arrives or stdio ends. The default.',
    run: async (argv, host) => (await import('./serve-command.ts')).serveCommand(argv, host),
  },
  {
    name: 'config',
    usage: ['config [--json] [options]'],
    summary: 'Print every setting, its value and its source.',
    run: async (argv, host) => (await import('./config-command.ts')).configCommand(argv, host),
  },
  {
    name: 'token',
    usage: ['token [--help]'],
    summary: 'Create a token for clients of a server with --ws-auth.',
    run: async (argv) => (await import('./token-command.ts')).tokenCommand(argv),
  },
  {
    name: 'audit',
    usage: ['audit verify FILE...'],
    summary: 'Verify that an audit log is complete and unchanged.',
    run: async (argv) => printed(await (await import('./audit-command.ts')).auditCommand(argv)),
  },
  {
    name: 'doctor',
    usage: ['doctor [--json]'],
    summary: 'Check whether sandboxes work on this machine, by trying to escape from one.',
    run: async (argv, host) => (await import('./doctor-command.ts')).doctorCommand(argv, host.env),
  },
  {
    name: 'relay',
    usage: ['relay [--help]'],
    summary: 'Serve a relay that connects clients to executors behind firewalls.',
    run: async (argv, host) => (await import('./relay-command.ts')).relayCommand(argv, host),
  },
  {
    name: 'forward',
    usage: ['forward [--help]'],
    summary: 'Make a running server reachable through a relay.',
    run: async (argv, host) => (await import('./forward-command.ts')).forwardCommand(argv, host),
  },
  {
    name: 'help',
    usage: ['help [COMMAND]'],
    summary: 'Print the help of the program or of a command.',
    run: async ([name = 'serve', ...rest], host) => {
      const command = COMMANDS.find((each) => each.name === name);
      if (command !== undefined && rest.length === 0) return command.run(['--help'], host);
      throw new UsageError(`unexpected argument ${quoteValue(command === undefined ? name : rest[0])}`);
    },
  },
];

/** The result of a command that succeeded. */
export function printed(text: string): CommandResult {
  return { text, exitCode: 0 };
}
