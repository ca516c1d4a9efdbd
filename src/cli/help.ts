import { CONFIG_OPTIONS, type ConfigOption } from '../server/config/config.ts';
import { SETTING_GROUPS } from '../server/config/setting.ts';
import { acceptsNone, formatConfigValue } from '../server/config/values.ts';
import { COMMANDS } from './commands.ts';
import { EXIT_CODES } from './failures.ts';

/** The text of `exec-server --help`, generated from the tables of commands and settings. It fits a terminal of 80 columns. */
export function helpText(): string {
  const groups = SETTING_GROUPS.map((group) => {
    const options = CONFIG_OPTIONS.filter((option) => option.group === group);
    return section(group, options.map(settingEntry));
  });
  const codes = Object.values(EXIT_CODES).map(({ code, meaning }) => wrap(`${code}  ${meaning}`, 2, 5));
  return [
    introduction(),
    section('Options', COMMAND_FLAGS),
    ...groups,
    VALUES,
    EXAMPLES,
    section('Exit codes', codes),
  ].join('\n');
}

const WIDTH = 80;

function introduction(): string {
  const lines = COMMANDS.flatMap(({ usage }) => usage.map((line) => `exec-server ${line}`));
  const width = Math.max(...COMMANDS.map(({ name }) => name.length));
  const commands = COMMANDS.map(({ name, summary }) =>
    wrap(`${name.padEnd(width)}  ${summary}`, 2, width + 4),
  );
  return `\
Usage: ${lines.join('\n       ')}

Runs programs for clients over websocket or stdio. Prints its URL on stdout once
it is ready, and nothing else; logs go to stderr.

Commands:
${commands.join('')}`;
}

const COMMAND_FLAGS = [
  entry(
    '--config FILE',
    'Read settings from this TOML file. Default: $EXEC_SERVER_CONFIG, or ~/.config/exec-server/config.toml if it exists.',
  ),
  entry(
    '-c, --config KEY=VALUE',
    'Set one value of the file, by its key. May be repeated. With --remote also a key of codex that decides how to sign in. Other keys of codex have no effect.',
  ),
  entry('--strict-config', 'Refuse keys and features that have no effect.'),
  entry('--transport ws|stdio|off', 'Listen on this kind of transport. A short form of --listen.'),
  entry('--url-file FILE', 'Write the URL to this file once listening; remove it on exit.'),
  entry('--pid-file FILE', 'Write the process id to this file once listening; remove it on exit.'),
  entry(
    '--remote URL',
    'Register at this registry and serve the environment of --environment-id through its relay. Without --listen the server has no other listener. The credential is the first one of EXEC_SERVER_API_KEY, workload identity, CODEX_API_KEY, CODEX_ACCESS_TOKEN and the login of codex.',
  ),
  entry('--name NAME', 'With --remote: the name of this executor in logs.'),
  entry(
    '--executor-credential-stdin',
    'With --remote: read credentials from stdin, as lines of JSON. The server ends when stdin ends.',
  ),
  entry('--use-agent-identity-auth', "With --remote: sign in with the agent's token in CODEX_ACCESS_TOKEN."),
  entry(
    '--remote-transport noise|direct',
    'With --remote: noise serves clients through a relay, end-to-end encrypted. direct serves one client over a websocket that this server opens, and needs --aws-sigv4. Default: noise',
  ),
  entry('--aws-sigv4', 'With --remote-transport direct: sign requests with AWS Signature Version 4.'),
  entry(
    '--aws-profile PROFILE',
    'With --aws-sigv4: take the keys from this profile only. Default: variables, shared files, web identity, container, instance metadata.',
  ),
  entry('--aws-region REGION', 'With --aws-sigv4: default: AWS_REGION, or the region of the profile.'),
  entry('--aws-service SERVICE', 'With --aws-sigv4: default: execute-api'),
  entry('--exit-on-stdin-close', 'End when stdin ends. Also: CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE=1.'),
  entry(
    '--linux-sandbox-pid-namespace MODE',
    'isolate: a sandbox has a process namespace of its own, as always. inherit is refused. Default: isolate',
  ),
  entry(
    '--proxy-private-ips-via-upstream',
    'Accepted without effect: the proxy of a program uses no upstream proxy. Also: CODEX_EXEC_SERVER_PROXY_PRIVATE_IPS_VIA_UPSTREAM=true.',
  ),
  entry('--enable FEATURE, --disable FEATURE', 'Accepted without effect: features belong to codex.'),
  entry('--json', 'With config or doctor: print JSON.'),
  entry('-h, --help', 'Print this help.'),
  entry('-V, --version', 'Print the version.'),
];

const VALUES = `\
Values:
  TIME is in milliseconds, or like 250ms, 30s, 5m, 2h. SIZE is in bytes, or like
  64KiB, 16MiB, 1GiB. A flag overrides its environment variable, which overrides
  the TOML file. TOML keys are the names that 'exec-server config' prints.
`;

const EXAMPLES = `\
Examples:
  exec-server
      Serve on a free loopback port and print the URL.
  exec-server --listen ws://127.0.0.1:4000 --detached-session-ttl 5m
      Serve on port 4000. A client that loses its connection has 5 minutes to
      come back.
  exec-server --transport stdio
      Serve one client on stdin and stdout.
  exec-server config --config ./exec-server.toml
      Show the settings that a file results in.
`;

function settingEntry(option: ConfigOption): string {
  const defaultText = formatConfigValue(option, option.default) || 'none';
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
      return `${option.flag} TIME${acceptsNone(option) ? '|none' : ''}`;
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
