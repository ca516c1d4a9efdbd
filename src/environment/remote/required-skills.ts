import { ClientError } from '../../client/errors.ts';
import { quote } from '../config/toml-table.ts';
import { DISCOVERY_TIMEOUT_MS, MAX_LISTED_WARNINGS } from '../limits.ts';
import type { ClientLike, Connector } from './connection.ts';

/** Returns a connector whose connections fail unless the executor has the skills, so that the environment is not ready. */
export function requireSkills(
  environmentId: string,
  connector: Connector,
  skills: readonly string[],
): Connector {
  const { reconnects, eager, retryWindowMs, inMemory = false } = connector;
  return {
    ...{ reconnects, eager, retryWindowMs, inMemory },
    ...(connector.dispose && { dispose: connector.dispose.bind(connector) }),
    async connect(signal) {
      const connection = await connector.connect(signal);
      try {
        await checkSkills(connection.client, environmentId, skills, signal);
        return connection;
      } catch (error) {
        await connection.client.close().catch(() => {});
        throw error;
      }
    },
  };
}

async function checkSkills(
  client: ClientLike,
  environmentId: string,
  required: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { names, warnings } = await installedSkills(client, environmentId, signal);
  const missing = required.filter((name) => !names.has(name));
  if (missing.length === 0) return;
  const directories = await searchedDirectories(client, signal);
  const skipped = warnings.slice(0, MAX_LISTED_WARNINGS).map((warning) => `; ${warning}`);
  throw new ClientError(
    'notFound',
    `environment '${environmentId}' lacks the required ${missing.length === 1 ? 'skill' : 'skills'} ${missing.map(quote).join(', ')}, ` +
      `which its executor looks for in ${directories}${skipped.join('')}`,
    { hint: "install what is missing, or remove it from 'skills'", retryable: true },
  );
}

async function installedSkills(client: ClientLike, environmentId: string, signal: AbortSignal) {
  try {
    const { skills, plugins, warnings } = await client.call(
      'capabilities/discoverV2',
      { cwd: 'file:///' },
      { signal, timeoutMs: DISCOVERY_TIMEOUT_MS },
    );
    const all = [...skills, ...plugins.flatMap((plugin) => plugin.skills)];
    return { names: new Set(all.map(({ name }) => name)), warnings };
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'unsupported') throw error;
    throw new ClientError(
      'unsupported',
      `environment '${environmentId}' requires skills, but its server cannot list them`,
      { hint: "update the server, or remove 'skills'", cause: error },
    );
  }
}

/** Describes where the executor looks for skills: with its own directories if it reports them. */
async function searchedDirectories(client: ClientLike, signal: AbortSignal): Promise<string> {
  let [codexHome, userHome] = ['$CODEX_HOME', '~'];
  try {
    const reported = await client.call(
      'environmentConfig/read',
      { cwd: 'file:///', configPaths: [['skills']], requirementsPaths: [] },
      { signal, timeoutMs: DISCOVERY_TIMEOUT_MS },
    );
    codexHome = reported.codexHomeDir;
    userHome = reported.userHomeDir ?? userHome;
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
  }
  return `${codexHome}/skills, ${userHome}/.agents/skills and the plugins in ${codexHome}/plugins/cache`;
}
