import { existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import { isObject } from '../../base/is-object.ts';
import { quoteValue } from '../../server/config/values.ts';
import { type CommandResult, type Host, printed } from '../commands.ts';
import { withFolderLock } from '../environments/folder-lock.ts';
import { RunError, UsageError } from '../failures.ts';
import { type GivenFlags, parseFlags } from '../flags.ts';
import { ownCommand } from '../own-command.ts';
import { MCP_CONFIG_FLAGS } from '../specs/mcp-spec.ts';
import { makeFolder, readConfig, replaceConfig } from './config-file.ts';
import { checkedTargets, sandboxOf } from './mcp-command.ts';
import { parsePlainJson } from './plain-json.ts';
import { absoluteRoot, rootsOf } from './root-flags.ts';
import { mergeTomlEntry, tomlTable } from './toml-entry.ts';

type Flags = GivenFlags<typeof MCP_CONFIG_FLAGS>;

/** The name of the server in the configuration of a client. */
const SERVER_NAME = 'exec-server';

/** The table of the server in the configuration of codex. */
const CODEX_TABLE = ['mcp_servers', SERVER_NAME] as const;

/** How a client starts the server. */
interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** A client that can be configured. */
interface Client {
  /** What a person calls it. */
  readonly title: string;
  /** Whether people start it from a desktop, so that it often lacks the PATH of a terminal. */
  readonly isDesktop?: boolean;
  /** The file that it reads. */
  file(env: NodeJS.ProcessEnv, directory: string): string;
  /** The content of a file that configures only this server. */
  snippet(launch: Launch): string;
  /** The content of a file with the server added. Throws RunError for a file that cannot be changed safely. */
  merge(file: string, text: string, launch: Launch): Promise<string>;
  /** Another way, as a command line. */
  readonly commandLine?: (launch: Launch) => string;
}

const CLIENTS: Readonly<Record<string, Client>> = {
  claude: {
    ...jsonClient('Claude Code', 'mcpServers', { type: 'stdio' }),
    file: (_env, directory) => join(directory, '.mcp.json'),
    commandLine: (launch) => `claude mcp add ${SERVER_NAME} -- ${shellWords(launch)}`,
  },
  cursor: {
    ...jsonClient('Cursor', 'mcpServers', {}),
    isDesktop: true,
    file: (_env, directory) => join(directory, '.cursor', 'mcp.json'),
  },
  vscode: {
    ...jsonClient('VS Code', 'servers', { type: 'stdio' }),
    isDesktop: true,
    file: (_env, directory) => join(directory, '.vscode', 'mcp.json'),
  },
  codex: {
    title: 'codex',
    file: ({ CODEX_HOME }) => join(CODEX_HOME || join(homedir(), '.codex'), 'config.toml'),
    snippet: (launch) => tomlTable(CODEX_TABLE, { ...launch }),
    merge: (file, text, launch) =>
      mergeTomlEntry(file, text, CODEX_TABLE, { ...launch }, (own) => refuseUrl(file, own)),
    commandLine: (launch) => `codex mcp add ${SERVER_NAME} -- ${shellWords(launch)}`,
  },
};

/** Prints the configuration of a client, or writes it. */
export async function mcpConfigCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('mcp', argv, MCP_CONFIG_FLAGS);
  const [name, unexpected] = positionals;
  const client = name !== undefined && Object.hasOwn(CLIENTS, name) ? CLIENTS[name] : undefined;
  if (client === undefined || unexpected !== undefined) {
    const given = unexpected ?? name;
    const not = given === undefined ? '' : `, not ${quoteValue(given)}`;
    throw new UsageError(`expected 'config ${Object.keys(CLIENTS).join('|')}'${not}`, 'mcp');
  }
  const launch = await launchOf(flags, host, client);
  const file = client.file(host.env, process.cwd());
  if (flags.write === true) {
    await writeConfig(client, file, launch);
    const note = client.isDesktop && isAbsolute(launch.command) ? BY_PATH : '';
    const details = `${client.title} starts exec-server from now on: ${file}\n${note}`;
    return { text: '', details, exitCode: 0 };
  }
  const other = client.commandLine === undefined ? '' : `, or run: ${client.commandLine(launch)}`;
  const details = `Add this to ${file} (--write does)${other}\n`;
  return { ...printed(client.snippet(launch)), details };
}

async function writeConfig(client: Client, file: string, launch: Launch): Promise<void> {
  makeFolder(dirname(file));
  await withFolderLock(dirname(file), async () => {
    // A link to a file elsewhere stays a link.
    const target = existsSync(file) ? realpathSync(file) : file;
    const text = existsSync(target) ? readConfig(target) : '';
    const changed = text.trim() === '' ? client.snippet(launch) : await client.merge(file, text, launch);
    if (changed !== text) replaceConfig(target, changed);
  });
}

/**
 * Repeats the flags of the tools, after a check, so that a client does not fail to start the server because of them. Paths become
 * absolute: the client may start the server anywhere.
 */
async function launchOf(flags: Flags, host: Host, client: Client): Promise<Launch> {
  sandboxOf(flags.sandbox);
  const directory = process.cwd();
  const { environment = [], root = [], 'token-file': tokenFile } = flags;
  const targets = await checkedTargets(flags, host, directory);
  rootsOf(root, targets, directory);
  if (tokenFile !== undefined && !existsSync(tokenFile)) {
    throw new UsageError(`--token-file: there is no file ${quoteValue(tokenFile)}`, 'mcp');
  }
  const args = [
    'mcp',
    ...environment.flatMap((name) => ['-E', name]),
    ...(tokenFile === undefined ? [] : ['--token-file', resolve(tokenFile)]),
    ...root.flatMap((path) => ['--root', absoluteRoot(path, targets, directory)]),
    ...(flags.sandbox === undefined ? [] : ['--sandbox', flags.sandbox]),
    ...(flags['read-only'] === true ? ['--read-only'] : []),
    ...(flags.ask === true ? ['--ask'] : []),
  ];
  const { command, args: first } = programOf(host.env, client);
  return { command, args: [...first, ...args] };
}

const BY_PATH = 'The file has the path of this program: run this again when Node or exec-server moves.\n';

/** Directories that are on the PATH of every program. */
const STANDARD_FOLDERS = ['/usr/bin', '/usr/local/bin'];

/**
 * How to start this program: by its name if the client's PATH has it, with npx if it came that way, else by its path. The PATH of a
 * desktop program often has only the standard directories, and the program needs Node there as well.
 */
function programOf(
  { PATH = '', npm_command: npmCommand }: NodeJS.ProcessEnv,
  { isDesktop = false }: Client,
): Launch {
  const [command, ...args] = ownCommand();
  const own = realpathSync(args.at(-1) ?? command);
  if (npmCommand === 'exec' && own.includes('/_npx/')) {
    return { command: 'npx', args: ['-y', 'exec-server'] };
  }
  const hasNode = args.length === 0 || STANDARD_FOLDERS.includes(dirname(command));
  const folders = PATH.split(delimiter).filter(
    (folder) => !isDesktop || (hasNode && STANDARD_FOLDERS.includes(folder)),
  );
  const onPath = folders.some((folder) => {
    const path = join(folder, SERVER_NAME);
    return folder !== '' && existsSync(path) && realpathSync(path) === own;
  });
  return onPath ? { command: SERVER_NAME, args: [] } : { command, args };
}

function jsonClient(title: string, key: string, extra: Readonly<Record<string, string>>) {
  const entry = ({ command, args }: Launch) => ({ ...extra, command, args });
  return {
    title,
    snippet: (launch: Launch) => json({ [key]: { [SERVER_NAME]: entry(launch) } }, '  '),
    async merge(file: string, text: string, launch: Launch): Promise<string> {
      const root = parsePlainJson(file, text);
      const servers = root[key] ?? {};
      if (!isObject(servers))
        throw new RunError(`${file}: ${quoteValue(key)} is not an object; correct it first`);
      const own = servers[SERVER_NAME];
      refuseUrl(file, own);
      const changed = { ...(isObject(own) && own), ...entry(launch) };
      const merged = { ...root, [key]: { ...servers, [SERVER_NAME]: changed } };
      return json(merged, /^([ \t]+)"/m.exec(text)?.[1] ?? '  ');
    },
  };
}

/** Throws RunError for an entry of a server that is reached by a URL: a client does not accept that beside a command. */
function refuseUrl(file: string, entry: unknown): void {
  if (!isObject(entry) || !('url' in entry)) return;
  throw new RunError(`${file} has an entry ${quoteValue(SERVER_NAME)} with a URL; remove that entry first`);
}

function json(value: unknown, indent: string): string {
  return `${JSON.stringify(value, null, indent)}\n`;
}

/** The command line for a shell. */
function shellWords({ command, args }: Launch): string {
  return [command, ...args]
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(' ');
}
