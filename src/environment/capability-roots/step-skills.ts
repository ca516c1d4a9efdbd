import type { DiscoveredRoot } from '../../client/backend.ts';
import type { DiscoveryCache, StepDiscovery } from './discovery-cache.ts';
import type { SelectedCapabilityRoot } from './selected-root.ts';

/** A skill as one step sees it. */
export interface StepSkill<E> {
  /** From the front matter of its `SKILL.md`, or the name of its directory. A plugin's skills are prefixed: `plugin:skill`. */
  readonly name: string;
  readonly description: string;
  readonly shortDescription: string | null;
  /** The `file:` URI of its `SKILL.md`. */
  readonly path: string;
  readonly rootId: string;
  readonly environmentId: string;
  /** Whether this step can use it. */
  readonly available: boolean;
  /** The step's handle for using it; null when it is not available. */
  readonly environment: E | null;
}

/** The skills of one step. */
export interface StepSkills<E> {
  readonly skills: readonly StepSkill<E>[];
  /** Messages for users: which files and roots are unusable, and why. */
  readonly warnings: readonly string[];
}

/** A step's selection and discoveries, and the cache of its thread. */
export interface SkillSources<E> {
  readonly selected: readonly SelectedCapabilityRoot[];
  readonly discovered: readonly StepDiscovery<E>[];
  readonly cache: DiscoveryCache;
}

/**
 * Returns the skills of a step. A selected root that the step could not resolve keeps its known skills, which are not available in
 * this step. Everything comes from the cache: no file is read, and no front matter is parsed twice.
 */
export async function projectSkills<E>({
  selected,
  discovered,
  cache,
}: SkillSources<E>): Promise<StepSkills<E>> {
  const resolved = new Map(discovered.map((each) => [each.root.id, each]));
  const selectedIds = new Set(selected.map(({ id }) => id));
  const attached = discovered.map(({ root }) => root).filter(({ id }) => !selectedIds.has(id));
  const skills: StepSkill<E>[] = [];
  const warnings: string[] = [];
  for (const root of [...selected, ...attached]) {
    const outcome = resolved.get(root.id) ?? cache.peek(root);
    if (outcome?.error != null) warnings.push(`capability root '${root.id}': ${outcome.error.message}`);
    if (outcome?.discovered == null) continue;
    const parsed = await parsedOnce(outcome.discovered);
    warnings.push(...parsed.warnings);
    const environment = resolved.get(root.id)?.environment ?? null;
    const origin = { rootId: root.id, environmentId: root.location.environmentId };
    for (const skill of parsed.skills) {
      skills.push(Object.freeze({ ...skill, ...origin, available: environment !== null, environment }));
    }
  }
  return Object.freeze({ skills: Object.freeze(skills), warnings: Object.freeze(warnings) });
}

interface ParsedSkills {
  readonly skills: readonly Pick<StepSkill<never>, 'name' | 'description' | 'shortDescription' | 'path'>[];
  readonly warnings: readonly string[];
}

/** By the cached object, which stays the same as long as the root is not discovered again. */
const parsedByRoot = new WeakMap<DiscoveredRoot, Promise<ParsedSkills>>();

function parsedOnce(discovered: DiscoveredRoot): Promise<ParsedSkills> {
  const known = parsedByRoot.get(discovered);
  if (known !== undefined) return known;
  const parsed = parse(discovered);
  parsedByRoot.set(discovered, parsed);
  return parsed;
}

async function parse(discovered: DiscoveredRoot): Promise<ParsedSkills> {
  // Loaded with the first skill: it contains the YAML parser.
  const [{ skillsOf }, { Budget }, { DISCOVERY_ANSWER_BYTES }] = await Promise.all([
    import('../../files/capability-discovery/skills.ts'),
    import('../../files/capability-discovery/file-bundle.ts'),
    import('../../files/limits.ts'),
  ]);
  const warnings = [...discovered.warnings];
  if (discovered.error !== null) warnings.push(`capability root '${discovered.id}': ${discovered.error}`);
  const answer = new Budget(DISCOVERY_ANSWER_BYTES, 'capability root');
  const skills = await skillsOf(discovered, answer, warnings);
  return {
    skills: skills.map(({ name, description, shortDescription, path }) => ({
      name,
      description,
      shortDescription,
      path,
    })),
    warnings,
  };
}
