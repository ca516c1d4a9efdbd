import { codexEnvironments } from '../environments/codex-environments.ts';
import { readEnvironments } from '../environments/environments-file.ts';
import { findTarget, LOCAL, type Target, type TargetSources } from '../environments/target.ts';
import { UsageError } from '../failures.ts';
import { MAX_ENVIRONMENTS } from './limits.ts';

/** What the command line says about the environments of the console. */
interface ShownFlags {
  readonly environments: readonly string[];
  readonly tokenFile: string | null;
}

/**
 * Finds the environments that a console shows, the default one first: those of -E, else the default one and all others that have a name.
 * Throws UsageError for a name that means nothing.
 */
export async function shownEnvironments(
  { environments, tokenFile }: ShownFlags,
  sources: TargetSources,
): Promise<readonly Target[]> {
  if (tokenFile !== null && environments.length > 1) {
    throw new UsageError(
      "--token-file is for one environment; give the others theirs with 'exec-server env add'",
      'console',
    );
  }
  const find = (environment: string | null) => findTarget({ environment, tokenFile }, sources);
  if (environments.length > 0) return unique(await Promise.all(environments.map(find)));
  const standard = await find(null);
  const others = [...(await namesOf(sources.env)), LOCAL].filter((name) => name !== standard.name);
  const targets = others.map((environment) => findTarget({ environment, tokenFile: null }, sources));
  return unique([standard, ...(await Promise.all(targets))]);
}

function unique(targets: readonly Target[]): readonly Target[] {
  const byName = new Map([...targets].reverse().map((target) => [target.name, target]));
  const shown = targets.filter((target) => byName.get(target.name) === target);
  if (shown.length <= MAX_ENVIRONMENTS) return shown;
  throw new UsageError(
    `a console shows at most ${MAX_ENVIRONMENTS} environments; choose some with -E`,
    'console',
  );
}

async function namesOf(env: NodeJS.ProcessEnv): Promise<string[]> {
  const { environments } = await readEnvironments(env);
  // A file of codex that is wrong is no reason to show nothing.
  const ofCodex = await codexEnvironments(env).catch(() => []);
  return [...new Set([...environments, ...ofCodex].map(({ id }) => id))];
}
