import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { quoteValue } from '../server/config/values.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import type { CodexEnvironment } from './environments/codex-environments.ts';
import { currentDirectory } from './environments/current-directory.ts';
import {
  addEnvironment,
  checkName,
  type NamedEnvironment,
  readEnvironments,
  removeEnvironment,
  type TlsFiles,
  usesTls,
} from './environments/environments-file.ts';
import { parseSshUrl } from './environments/ssh-source.ts';
import { checkUrl, findTarget, LOCAL, readToken, type TargetSources } from './environments/target.ts';
import { readTlsFiles } from './environments/tls-files.ts';
import { withClient } from './environments/with-client.ts';
import { RunError, UsageError } from './failures.ts';
import { type GivenFlags, parseFlags } from './flags.ts';
import { ENV_FLAGS } from './specs/environment-specs.ts';
import { table } from './table.ts';
import { visible } from './terminal-text.ts';

type Flags = GivenFlags<typeof ENV_FLAGS>;

/** Lists, adds, tests and removes environments. */
export async function envCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('env', argv, ENV_FLAGS);
  const [verb, ...operands] = positionals;
  const sources = { env: host.env, directory: currentDirectory() };
  switch (verb) {
    case 'ls':
      rejectMore(operands, 0);
      return list(flags, sources, host);
    case 'add':
      rejectMore(operands, 2);
      return add(operands, flags, sources);
    case 'test':
      rejectMore(operands, 1);
      return test(operands[0] ?? null, flags, host);
    case 'rm':
      rejectMore(operands, 1);
      return remove(operands[0], sources);
    default: {
      const given = verb === undefined ? '' : `, not ${quoteValue(verb)}`;
      throw new UsageError(`expected ls, add, test or rm${given}`, 'env');
    }
  }
}

interface Row {
  readonly name: string;
  readonly address: string;
  readonly file: string | null;
  readonly isCurrent: boolean;
}

async function list(flags: Flags, sources: TargetSources, host: Host): Promise<CommandResult> {
  const { environments, path } = await readEnvironments(sources.env);
  const ofCodex = (await codexOrWarning(sources.env, host)).filter(({ id }) =>
    environments.every((own) => own.id !== id),
  );
  const current = await findTarget({ environment: null, tokenFile: null }, sources).catch(() => null);
  const rows: Row[] = [
    { name: LOCAL, address: "this machine's private server", file: null },
    ...environments.map((own) => ({ name: own.id, address: addressOf(own), file: path })),
    ...ofCodex.map(({ id, address, file }) => ({ name: id, address, file })),
  ].map((row) => ({ ...row, isCurrent: row.name === current?.name }));
  if (flags.json) return printed(`${JSON.stringify(rows, null, 2)}\n`);
  const cells = rows.map(({ name, address, file, isCurrent }) => [
    isCurrent ? '*' : '',
    name,
    address,
    file ?? '',
  ]);
  return printed(table([['', 'NAME', 'ADDRESS', 'FILE'], ...cells]));
}

async function codexOrWarning(env: NodeJS.ProcessEnv, host: Host): Promise<readonly CodexEnvironment[]> {
  const { codexEnvironments } = await import('./environments/codex-environments.ts');
  return codexEnvironments(env).catch((error: Error) => {
    host.stderr.write(`exec-server env: warning: ${visible(error.message)}\n`);
    return [];
  });
}

async function add(
  [id, url]: readonly string[],
  flags: Flags,
  { env, directory }: TargetSources,
): Promise<CommandResult> {
  if (id === undefined || url === undefined) throw new UsageError("expected 'add NAME URL'", 'env');
  checkName(id, 'env');
  const isRelay = /^https?:\/\//.test(url) && URL.canParse(url);
  if (!isRelay) checkUrl(url, 'add');
  if (url.startsWith('ssh:')) parseSshUrl(url);
  const { 'token-file': file, 'environment-id': environmentId } = flags;
  if (!isRelay && environmentId !== undefined) {
    throw new UsageError('--environment-id is only for a relay, whose URL begins with https://', 'env');
  }
  if (isRelay && file === undefined)
    throw new UsageError('a relay needs a token: add --token-file FILE', 'env');
  if (url.startsWith('ssh:') && file !== undefined) {
    throw new UsageError('--token-file is not for ssh, which has its own keys', 'env');
  }
  const tokenFile = file === undefined ? null : resolve(directory, file);
  if (tokenFile !== null) readToken(tokenFile);
  const named: NamedEnvironment = {
    id,
    url,
    tokenFile,
    environmentId: isRelay ? (environmentId ?? id) : null,
    tls: tlsFiles(url, flags, directory),
  };
  await addEnvironment(env, named);
  return { text: '', details: `added; try 'exec-server env test ${id}'\n`, exitCode: 0 };
}

/** The files of the flags for TLS. Throws UsageError or RunError for files that do not work. */
function tlsFiles(url: string, flags: Flags, directory: string): TlsFiles {
  const [ca, cert, key] = (['tls-ca', 'tls-cert', 'tls-key'] as const).map((name) => {
    const file = flags[name];
    return file === undefined ? null : resolve(directory, file);
  }) as [string | null, string | null, string | null];
  const files = { ca, cert, key };
  if (ca === null && cert === null && key === null) return files;
  if (!usesTls(url)) {
    throw new UsageError('--tls-ca, --tls-cert and --tls-key are for wss:// and https:// URLs', 'env');
  }
  if ((cert === null) !== (key === null))
    throw new UsageError('--tls-cert and --tls-key need each other', 'env');
  readTlsFiles(files);
  return files;
}

async function remove(id: string | undefined, { env }: TargetSources): Promise<CommandResult> {
  if (id === undefined) throw new UsageError("expected 'rm NAME'", 'env');
  const { environments, path } = await readEnvironments(env);
  if (!environments.some((environment) => environment.id === id)) {
    const why = existsSync(path) ? `is not in ${path}` : 'does not exist';
    throw new RunError(`the environment ${quoteValue(id)} ${why}; 'exec-server env ls' lists them`);
  }
  await removeEnvironment(env, id);
  return printed('');
}

async function test(given: string | null, flags: Flags, host: Host): Promise<CommandResult> {
  if (given !== null && flags.environment !== undefined) {
    throw new UsageError('name the environment once: as an argument or with -E', 'env');
  }
  const chosen = { ...flags, ...(given !== null && { environment: given, source: 'the argument' }) };
  const startedAt = performance.now();
  const options = { clientName: 'exec-server env test', detachedSessionTtlMs: 0 };
  return withClient(chosen, host, options, async ({ client, target: { name, address, source } }) => {
    const connectMs = Math.round(performance.now() - startedAt);
    const info = await client.info();
    if (flags.json) {
      return printed(`${JSON.stringify({ name, address, source, connectMs, environment: info }, null, 2)}\n`);
    }
    const { executorVersion = 'unknown', platformOs = 'unknown', shell } = info;
    const rows = [
      ['environment', name],
      ['address', address],
      ['chosen by', source],
      ['connected in', `${connectMs} ms`],
      ['version', executorVersion],
      ['system', platformOs],
      ['shell', shell.path],
    ];
    return printed(table(rows));
  });
}

function addressOf({ url, environmentId }: NamedEnvironment): string {
  return environmentId === null ? url : `${environmentId} at ${url}`;
}

function rejectMore(operands: readonly string[], most: number): void {
  const unexpected = operands[most];
  if (unexpected !== undefined) throw new UsageError(`unexpected argument ${quoteValue(unexpected)}`, 'env');
}
