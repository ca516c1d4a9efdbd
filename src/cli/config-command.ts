import { VERSION } from '../observability/version.ts';
import { CONFIG_OPTIONS } from '../server/config/config.ts';
import { describeSource } from '../server/config/resolve.ts';
import { type ConfigValue, formatConfigValue } from '../server/config/values.ts';
import { refuseBadNetworkSettings } from '../server/sessions/connection-http.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { programHelp } from './help.ts';
import { reportIgnored } from './reference-flags.ts';
import { parseServerArguments, type ServerArguments } from './server-arguments.ts';
import { loadSettings, type Settings } from './settings.ts';

/** Prints every setting, its value and its source. */
export function configCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  return printSettings(parseServerArguments(argv, 'config'), host);
}

/** Prints what the arguments ask for: help, the version or the settings. */
export async function printSettings(
  args: ServerArguments,
  host: Pick<Host, 'env' | 'stderr'>,
): Promise<CommandResult> {
  if (args.command === 'help') return printed(programHelp());
  if (args.command === 'version') return printed(`exec-server ${VERSION}\n`);
  reportIgnored(args.warnings, host);
  const settings = await loadSettings(args, host.env);
  await refuseBadNetworkSettings(settings.config);
  return printed(args.json ? settingsJson(settings) : settingsTable(settings));
}

/** An aligned table of key, value and source, one setting per line. */
function settingsTable({ config, sources }: Settings): string {
  const rows = CONFIG_OPTIONS.map((option) => [
    option.key,
    formatConfigValue(option, config[option.key]),
    describeSource(sources[option.key]),
  ]);
  return align([['KEY', 'VALUE', 'SOURCE'], ...rows]);
}

/** `{"file": path or null, "settings": {key: {value, source, detail}}}` */
function settingsJson({ config, sources, file }: Settings): string {
  const settings = Object.fromEntries(
    CONFIG_OPTIONS.map(({ key }) => [key, { value: jsonValue(config[key]), ...sources[key] }]),
  );
  return `${JSON.stringify({ file, settings }, null, 2)}\n`;
}

/** JSON has no infinite numbers. */
function jsonValue(value: ConfigValue): ConfigValue {
  return value === Number.POSITIVE_INFINITY ? 'none' : value;
}

function align(rows: readonly (readonly string[])[]): string {
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map(([key, value, source]) => `${key!.padEnd(widths[0]!)}  ${value!.padEnd(widths[1]!)}  ${source}\n`)
    .join('');
}
