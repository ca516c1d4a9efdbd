import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { LOCAL } from '../environments/target.ts';
import { RunError, UsageError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { SHELL_FLAGS } from '../specs/run-specs.ts';
import { commandFor } from './endings.ts';
import { followDetached } from './follow-detached.ts';
import { Interruptions } from './interruptions.ts';
import { LocalTerminal } from './local-terminal.ts';
import { OutputLosses } from './output-losses.ts';
import { asIfHere } from './program-environment.ts';
import { hasTerminal } from './program-input.ts';
import { PlainOutput, StandardStreams } from './program-output.ts';
import { checkName } from './run-command.ts';
import { startFailure } from './start-failure.ts';

/** Opens a login shell that outlives this command. */
export async function shellCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('shell', argv, SHELL_FLAGS);
  if (positionals.length > 0) {
    throw new UsageError(
      `unexpected argument ${quoteValue(positionals[0])}; 'exec-server run' runs a program`,
      'shell',
    );
  }
  const { name, record } = flags;
  if (name !== undefined) checkName(name, 'shell');
  if (!hasTerminal()) {
    throw new UsageError(
      "a shell needs a terminal as stdin and stdout; run commands with 'exec-server run -- sh -c LINE'",
      'shell',
    );
  }
  const interruptions = new Interruptions(host);
  const terminal = new LocalTerminal(host);
  const output = new PlainOutput(new StandardStreams(host.stdout, host.stderr), true);
  return followDetached({
    flags,
    clientName: 'exec-server shell',
    host,
    interruptions,
    starts: true,
    async open(client, place) {
      const { shell, userHomeDir } = await client.info({ signal: interruptions.signal });
      const { TERM } = host.env;
      const there = {
        ...(TERM && { env: { TERM } }),
        ...(userHomeDir !== undefined && { cwd: userHomeDir }),
      };
      const argv = [shell.path, '-l'];
      if (!client.capabilities.processSharing) {
        const run = `${commandFor('run', place)} -t -- ${shell.path} -l`;
        throw new RunError(
          `the server cannot keep a shell without a connection: it lacks processSharing; update it, or use '${run}'`,
          { kind: 'unsupported' },
        );
      }
      const started = await client
        .spawn(argv, {
          tty: terminal.size,
          detached: true,
          signal: interruptions.signal,
          ...(place.target.name === LOCAL
            ? asIfHere(host.env, (text) => void host.stderr.write(text))
            : there),
          ...(name !== undefined && { name }),
          ...(record && { record }),
        })
        .catch((error) => {
          throw startFailure(error, argv, place, true);
        });
      terminal.enterRawMode();
      return {
        process: started,
        terminal,
        output,
        input: 'person',
        isOnTerminal: true,
        wantsKeyboard: true,
        losses: new OutputLosses(),
      };
    },
  });
}
