import { parseMetricsAddress } from '../listener/metrics-listener.ts';
import { VERSION } from '../observability/version.ts';
import { CONFIG_OPTIONS } from '../server/config/config.ts';
import { ConfigError, describeSource } from '../server/config/resolve.ts';
import { type ConfigValue, formatConfigValue } from '../server/config/values.ts';
import { refuseBadNetworkSettings } from '../server/sessions/connection-http.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { EXIT_CODES, reportFailure, UsageError } from './failures.ts';
import { programHelp } from './help.ts';
import { reportIgnored, reportUnknownVariables } from './reference-flags.ts';
import { rejectUselessFiles } from './run-server.ts';
import { parseServerArguments, type ServerArguments } from './server-arguments.ts';
import { inspectSettings, type Settings } from './settings.ts';
import { table } from './table.ts';

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
  const { problems: found, ...settings } = await inspectSettings(args, host.env);
  reportUnknownVariables(settings, host);
  // How settings work together can be checked when each of them is right.
  const problems =
    found.length > 0 ? [...found, ...(await networkProblems(settings))] : await startProblems(settings, args);
  const isInvalid = problems.some(
    (problem) => problem instanceof ConfigError || problem instanceof UsageError,
  );
  return {
    text: args.json ? settingsJson(settings, problems) : settingsTable(settings, problems),
    details: problems.map((problem) => `${reportFailure(problem, false).text.split('\n')[0]}\n`).join(''),
    exitCode: problems.length === 0 ? 0 : EXIT_CODES[isInvalid ? 'usage' : 'failure'].code,
  };
}

async function networkProblems({ config }: Settings): Promise<Error[]> {
  return refuseBadNetworkSettings(config).then(
    () => [],
    (error: Error) => [error],
  );
}

/** Why the settings do not work together, or not on this machine. */
async function startProblems({ config, address }: Settings, args: ServerArguments): Promise<Error[]> {
  const { checkSettings, readMinSandbox, tlsFilesOf } = await import('../server/start-checks.ts');
  const { environmentId } = config;
  try {
    rejectUselessFiles({ config, address }, args);
    await checkSettings(config, address);
    if (address.kind === 'websocket' || address.kind === 'unix') tlsFilesOf(config, address);
    if (config.metricsListen !== '') parseMetricsAddress(config.metricsListen);
    readMinSandbox(config.minSandbox);
    if (args.remote !== null) {
      const { checkTarget } = await import('./registry-auth.ts');
      await checkTarget({ remote: args.remote, environmentId, command: null });
    }
    return [];
  } catch (error) {
    return [error as Error];
  }
}

/** An aligned table of key, value, source and variable, one setting per line. */
function settingsTable({ config, sources }: Settings, problems: readonly Error[]): string {
  const rows = CONFIG_OPTIONS.map((option) => {
    const problem = problemOf(option.key, problems);
    return [
      option.key,
      problem === null ? formatConfigValue(option, config[option.key]) : 'invalid',
      describeSource(problem?.source ?? sources[option.key]),
      option.env,
    ];
  });
  return table([['KEY', 'VALUE', 'SOURCE', 'VARIABLE'], ...rows]);
}

/** `{"file": path or null, "settings": {key: {value, source, detail, variable, problem?}}, "problems": [text]}` */
function settingsJson({ config, sources, file }: Settings, problems: readonly Error[]): string {
  const settings = Object.fromEntries(
    CONFIG_OPTIONS.map(({ key, env }) => {
      const problem = problemOf(key, problems);
      const source = problem?.source ?? sources[key];
      const note = problem !== null && { problem: problem.message };
      return [key, { value: jsonValue(config[key]), ...source, variable: env, ...note }];
    }),
  );
  const messages = problems.map(({ message }) => message);
  return `${JSON.stringify({ file, settings, problems: messages }, null, 2)}\n`;
}

function problemOf(key: string, problems: readonly Error[]): ConfigError | null {
  const problem = problems.find((candidate) => candidate instanceof ConfigError && candidate.key === key);
  return (problem as ConfigError | undefined) ?? null;
}

/** JSON has no infinite numbers. */
function jsonValue(value: ConfigValue): ConfigValue {
  return value === Number.POSITIVE_INFINITY ? 'none' : value;
}
