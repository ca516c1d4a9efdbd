import { openStdioCommand } from '../transport/stdio-command.ts';
import { checkBytes, expectOptions, type OptionNames, wrong } from './connection/option-checks.ts';
import type { TransportSource } from './connection/session-options.ts';
import { ClientError } from './errors.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';

/** A server that the client starts as a program and talks to over its stdin and stdout. */
export interface StdioCommandOptions {
  readonly program: string;
  readonly args?: readonly string[];
  /** Environment variables, added to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Called with each line of the program's stderr. */
  readonly onStderr?: (line: string) => void;
  /** Largest message that the client accepts from the server. */
  readonly maxMessageBytes?: number;
}

/**
 * Creates a transport source for `ExecServerClient.connect` that starts the server as a child process. The server's
 * process group ends with the connection, so a lost session cannot be resumed.
 */
export function stdioCommand(options: StdioCommandOptions): TransportSource {
  expectOptions('stdioCommand', options, STDIO_OPTIONS, 'config');
  const { maxMessageBytes = MAX_MESSAGE_BYTES, ...command } = options;
  if (typeof command.program !== 'string' || command.program === '')
    throw wrong('`program` is', command.program, 'the name or path of a program', undefined, 'config');
  if (command.cwd === '') throw wrong('`cwd` is', command.cwd, 'a directory', undefined, 'config');
  checkBytes('maxMessageBytes', maxMessageBytes, { min: 1, kind: 'config' });
  return {
    resumable: false,
    open: async () => {
      try {
        return await openStdioCommand({ ...command, maxMessageBytes });
      } catch (cause) {
        throw new ClientError('spawn', `cannot start ${options.program}: ${(cause as Error).message}`, {
          cause,
          hint: 'check the program name and `cwd`',
        });
      }
    },
  };
}

const STDIO_OPTIONS: OptionNames<StdioCommandOptions> = {
  program: true,
  args: true,
  env: true,
  cwd: true,
  onStderr: true,
  maxMessageBytes: true,
};
