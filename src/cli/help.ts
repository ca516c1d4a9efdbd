import { DEFAULT_CONFIG } from '../server/config/config.ts';
import { type ConfigOption, OPTION_GROUPS } from '../server/config/option-spec.ts';
import { CONFIG_OPTIONS } from '../server/config/options.ts';
import { formatConfigValue } from '../server/config/values.ts';
import { EXIT_CODES } from './failures.ts';

/** The text of `exec-server --help`, generated from the option table. It fits a terminal of 80 columns. */
export function helpText(): string {
  const groups = OPTION_GROUPS.map((group) => {
    const options = CONFIG_OPTIONS.filter((option) => option.group === group);
    return section(group, options.map(settingEntry));
  });
  const codes = Object.values(EXIT_CODES).map(({ code, meaning }) => wrap(`${code}  ${meaning}`, 2, 5));
  return [
    INTRODUCTION,
    section('Options', COMMAND_FLAGS),
    ...groups,
    VALUES,
    EXAMPLES,
    section('Exit codes', codes),
  ].join('\n');
}

const WIDTH = 80;

const INTRODUCTION = `\
Usage: exec-server [serve] [options]
       exec-server config [--json] [options]
       exec-server token [--help]
       exec-server audit verify FILE...
       exec-server doctor [--json]
       exec-server relay [--help]
       exec-server forward [--help]

Runs programs for clients over websocket or stdio. Prints its URL on stdout once
it is ready, and nothing else; logs go to stderr.

Commands:
  serve   Serve until a signal arrives or stdio ends. The default.
  config  Print every setting, its value and where it comes from.
  token   Make a token for clients of a server with --ws-auth.
  audit   Check that an audit log is whole and unchanged.
  doctor  Find out whether sandboxes work here, and try to break out of one.
  relay   Serve a meeting place for executors and harnesses.
  forward Make a server reachable through a relay.
`;

const COMMAND_FLAGS = [
  entry(
    '--config FILE',
    'Read settings from this TOML file; else from $EXEC_SERVER_CONFIG, else from ~/.config/exec-server/config.toml if there is one.',
  ),
  entry('--transport ws|stdio|off', 'Listen on this kind of transport; short for --listen.'),
  entry('--url-file FILE', 'Write the URL to this file once listening; remove it on exit.'),
  entry('--pid-file FILE', 'Write the process id to this file once listening; remove it on exit.'),
  entry(
    '--remote URL',
    'Register at this registry, and serve the environment of --environment-id through its relay; without --listen only so. EXEC_SERVER_API_KEY or CODEX_API_KEY has the credential.',
  ),
  entry('--name NAME', 'With --remote: a name for logs.'),
  entry(
    '--executor-credential-stdin',
    'With --remote: read credentials from stdin, as lines of JSON. The end of stdin ends the server.',
  ),
  entry('--exit-on-stdin-close', 'End when stdin ends. Also: CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE=1'),
  entry('--json', 'With config or doctor: print JSON.'),
  entry('-h, --help', 'Print this help.'),
  entry('-V, --version', 'Print the version.'),
];

const VALUES = `\
Values:
  TIME is in milliseconds, or like 250ms, 30s, 5m, 2h. SIZE is in bytes, or like
  64KiB, 16MiB, 1GiB. A flag wins over its environment variable, that over the
  TOML file, that over the default. TOML keys are the names that config prints.
`;

const EXAMPLES = `\
Examples:
  exec-server
      Serve on a free loopback port and print the URL.
  exec-server --listen ws://127.0.0.1:4000 --detached-session-ttl 5m
      Serve on port 4000; a client that loses its connection has 5 minutes.
  exec-server --transport stdio
      Serve the one client at the other end of stdin and stdout.
  exec-server config --config ./exec-server.toml
      Show what a settings file would do.
`;

function settingEntry(option: ConfigOption): string {
  const defaultText = formatConfigValue(option, DEFAULT_CONFIG[option.key]) || 'none';
  return `${entry(flagWithValue(option), option.description)}      Default: ${defaultText}. Env: ${option.env}\n`;
}

function flagWithValue(option: ConfigOption): string {
  switch (option.type) {
    case 'boolean':
      return option.flag.replace('--', '--[no-]');
    case 'enum':
      return `${option.flag} ${option.values.join('|')}`;
    case 'string':
      return `${option.flag} ${option.placeholder}`;
    case 'integer':
      return `${option.flag} N`;
    case 'duration':
      return `${option.flag} TIME`;
    case 'bytes':
      return `${option.flag} SIZE`;
  }
}

function section(title: string, entries: readonly string[]): string {
  return `${title}:\n${entries.join('')}`;
}

function entry(flag: string, description: string): string {
  return `  ${flag}\n${wrap(description.replaceAll('`', ''), 6, 6)}`;
}

/** Breaks text at spaces; the first line is indented by `first`, the others by `rest`. */
function wrap(text: string, first: number, rest: number): string {
  let line = ' '.repeat(first);
  let lines = '';
  for (const word of text.split(' ')) {
    if (line.trim() !== '' && line.length + word.length > WIDTH) {
      lines += `${line.trimEnd()}\n`;
      line = ' '.repeat(rest);
    }
    line += `${word} `;
  }
  return `${lines}${line.trimEnd()}\n`;
}
