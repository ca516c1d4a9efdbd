import { VERSION } from '../observability/version.ts';
import { quoteValue } from '../server/config/values.ts';
import { type CommandResult, findCommand, printed, unknownCommand } from './commands.ts';
import { UsageError } from './failures.ts';
import { parseFlags, parseOnlyFlags } from './flags.ts';
import { commandHelp, programHelp } from './help.ts';
import { HELP_COMMAND, VERSION_COMMAND } from './specs/small-specs.ts';

/** Prints the list of commands, or the help of one. */
export async function helpCommand(argv: readonly string[]): Promise<CommandResult> {
  const { positionals } = parseFlags('help', argv, HELP_COMMAND.flags);
  const [name, unexpected] = positionals;
  if (unexpected !== undefined) throw new UsageError(`unexpected argument ${quoteValue(unexpected)}`, 'help');
  if (name === undefined) return printed(programHelp());
  const command = findCommand(name);
  if (command === undefined) throw unknownCommand(name);
  return printed(commandHelp(command, await command.spec()));
}

/** Prints the version. */
export function versionCommand(argv: readonly string[]): CommandResult {
  const { json } = parseOnlyFlags('version', argv, VERSION_COMMAND.flags);
  if (!json) return printed(`exec-server ${VERSION}\n`);
  const { version: node, platform, arch } = process;
  return printed(`${JSON.stringify({ version: VERSION, node, platform, arch }, null, 2)}\n`);
}
