import { openStdioCommand } from '../transport/stdio-command.ts';
import type { TransportSource } from './client-core.ts';
import { ClientError } from './errors.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';

/** A server that is started as a program and spoken to on its stdin and stdout. */
export interface StdioCommandOptions {
  readonly program: string;
  readonly args?: readonly string[];
  /** Variables on top of this process's own. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Told of each line on the program's stderr. */
  readonly onStderr?: (line: string) => void;
  /** Largest message that is read. */
  readonly maxMessageBytes?: number;
}

/**
 * Transports to a server that this process starts, for `ExecServerClient.connect`. The server and everything in its process group
 * ends with the connection, so there is nothing to come back to.
 */
export function stdioCommand(options: StdioCommandOptions): TransportSource {
  const { maxMessageBytes = MAX_MESSAGE_BYTES, ...command } = options;
  return {
    resumable: false,
    open: async () => {
      try {
        return await openStdioCommand({ ...command, maxMessageBytes });
      } catch (cause) {
        throw new ClientError('spawn', `${options.program} cannot be started: ${(cause as Error).message}`, {
          cause,
          hint: 'check the name of the program and its working directory',
        });
      }
    },
  };
}
