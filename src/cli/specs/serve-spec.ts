import { CONFIG_OPTIONS, type ConfigOption } from '../../server/config/config.ts';
import { SETTING_GROUPS } from '../../server/config/setting.ts';
import { acceptsNone, formatConfigValue } from '../../server/config/values.ts';
import { type CommandSpec, documented, type FlagSpecs, HELP, JSON_FLAG } from '../command-spec.ts';
import { EXIT_CODES } from '../failures.ts';
import { OWN_FLAGS, SETTING_FLAGS } from '../server-arguments.ts';

const VALUES = `\
TIME is in milliseconds, or like 250ms, 30s, 5m, 2h. SIZE is in bytes, or like 64KiB, 16MiB, 1GiB. A flag overrides its environment \
variable, which overrides the TOML file. TOML keys are the names that 'exec-server config' prints.`;

const { json, ...serveFlags } = documented(OWN_FLAGS, {
  port: {
    value: 'PORT',
    description:
      'Listen on this port of 127.0.0.1, with TLS if --tls-cert is given. A short form of --listen.',
  },
  config: {
    value: 'FILE|KEY=VALUE',
    description:
      'Read settings from this TOML file. Default: $EXEC_SERVER_CONFIG, or ~/.config/exec-server/config.toml if it exists. KEY=VALUE sets one value of the file, and may be repeated. With --remote also a key of codex that decides how to sign in. Other keys of codex have no effect.',
  },
  'strict-config': { description: 'Refuse keys and features that have no effect.' },
  transport: {
    value: 'ws|stdio|off',
    description: 'Listen on this kind of transport. A short form of --listen.',
  },
  'url-file': {
    value: 'FILE',
    description: 'Write the URL to this file once listening; remove it on exit.',
  },
  'pid-file': {
    value: 'FILE',
    description: 'Write the process id to this file once listening; remove it on exit.',
  },
  remote: {
    value: 'URL',
    description:
      'Register at this registry and serve the environment of --environment-id through its relay. Without --listen the server has no other listener. The credential is the first one of EXEC_SERVER_API_KEY, workload identity, CODEX_API_KEY, CODEX_ACCESS_TOKEN and the login of codex.',
  },
  name: { value: 'NAME', description: 'With --remote: the name of this executor in logs.' },
  'executor-credential-stdin': {
    description:
      'With --remote: read credentials from stdin, as lines of JSON. The server ends when stdin ends.',
  },
  'use-agent-identity-auth': {
    description: "With --remote: sign in with the agent's token in CODEX_ACCESS_TOKEN.",
  },
  'remote-transport': {
    value: 'noise|direct',
    description:
      'With --remote: noise serves clients through a relay, end-to-end encrypted. direct serves one client over a websocket that this server opens, and needs --aws-sigv4. Default: noise',
  },
  'aws-sigv4': {
    description: 'With --remote-transport direct: sign requests with AWS Signature Version 4.',
  },
  'aws-profile': {
    value: 'PROFILE',
    description:
      'With --aws-sigv4: take the keys from this profile only. Default: variables, shared files, web identity, container, instance metadata.',
  },
  'aws-region': {
    value: 'REGION',
    description: 'With --aws-sigv4: default: AWS_REGION, or the region of the profile.',
  },
  'aws-service': { value: 'SERVICE', description: 'With --aws-sigv4: default: execute-api' },
  'exit-on-stdin-close': {
    description: 'End when stdin ends. Also: CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE=1.',
  },
  'linux-sandbox-pid-namespace': {
    value: 'MODE',
    description:
      'isolate: a sandbox has a process namespace of its own, as always. inherit is refused. Default: isolate',
  },
  'proxy-private-ips-via-upstream': {
    description:
      'Accepted without effect: the proxy of a program uses no upstream proxy. Also: CODEX_EXEC_SERVER_PROXY_PRIVATE_IPS_VIA_UPSTREAM=true.',
  },
  enable: { value: 'FEATURE', description: 'Accepted without effect: features belong to codex.' },
  disable: { value: 'FEATURE', description: 'Accepted without effect: features belong to codex.' },
  json: JSON_FLAG,
  help: HELP,
  version: { description: 'Print the version.' },
});

/** The command `serve`. */
export const SERVE: CommandSpec = {
  usage: ['[options]'],
  description: `\
Runs programs for clients over websocket or stdio, until a signal arrives or stdio ends. Prints its URL on stdout once it is ready, and \
nothing else; logs go to stderr. 'exec-server' without a command does the same.`,
  flags: { ...serveFlags, ...settingFlags() },
  notes: {
    Values: VALUES,
    'Exit codes': Object.values(EXIT_CODES)
      .map(({ code, meaning }) => `${code}  ${meaning}`)
      .join('\n'),
  },
  examples: [
    { line: 'serve', meaning: 'Serve on a free loopback port and print the URL.' },
    {
      line: 'serve --port 4000 --detached-session-ttl 5m',
      meaning: 'Serve on port 4000. A client that loses its connection has 5 minutes to come back.',
    },
    { line: 'serve --transport stdio', meaning: 'Serve one client on stdin and stdout.' },
  ],
};

/** The command `config`. */
export const CONFIG: CommandSpec = {
  usage: ['[--json] [options of serve]'],
  description: `\
Prints every setting, its value, its source and its environment variable. It takes the flags of serve. Wrong \
values, and settings that do not work together, are shown, and the exit code is then that of serve. It reads no certificates, tokens or logs.`,
  flags: { json: json!, ...SERVE.flags },
  examples: [
    { line: 'config', meaning: 'Show the settings that a server would have.' },
    { line: 'config --config ./exec-server.toml --json', meaning: 'Show what a file results in, as JSON.' },
  ],
};

/** The settings in the order of their groups. */
function settingFlags(): FlagSpecs {
  const flags: Record<string, FlagSpecs[string]> = {};
  for (const group of SETTING_GROUPS) {
    for (const option of CONFIG_OPTIONS.filter((candidate) => candidate.group === group)) {
      const name = option.flag.slice(2);
      const details = `Default: ${formatConfigValue(option, option.default) || 'none'}. Env: ${option.env}`;
      const value = valueName(option);
      const description = option.description.replaceAll('`', '');
      flags[name] = {
        ...SETTING_FLAGS[name]!,
        group,
        description,
        details,
        ...(value !== null && { value }),
      };
      if (option.type === 'boolean')
        flags[`no-${name}`] = { ...SETTING_FLAGS[`no-${name}`]!, group, description };
    }
  }
  return flags;
}

function valueName(option: ConfigOption): string | null {
  switch (option.type) {
    case 'boolean':
      return null;
    case 'enum':
      return option.values.join('|');
    case 'string':
      return option.placeholder;
    case 'integer':
      return 'N';
    case 'duration':
      return `TIME${acceptsNone(option) ? '|none' : ''}`;
    case 'bytes':
      return 'SIZE';
  }
}
