import { setImmediate as nextTurn } from 'node:timers/promises';
import { isObject } from '../../base/is-object.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { MAX_MANIFEST_DEPTH, MAX_PREFIXED_NAME_CHARACTERS } from '../limits.ts';
import { nativePathOfText, textOfName } from '../native-path.ts';
import type { Budget, BundledFile } from './file-bundle.ts';
import type { DiscoveredRoot } from './root.ts';
import { isLonger, NOTHING, parseSkillExtras, parseSkillHead } from './skill-metadata.ts';
import { YamlError, YamlLimitError } from './skill-yaml.ts';

export type InstalledSkill = ResultOf<'capabilities/discoverV2'>['skills'][number];

/**
 * The skills of a root, each prefixed with the name of the nearest plugin that contains it. Skills beyond the budget are skipped
 * with a warning. Parses one file in each turn.
 */
export async function skillsOf(
  root: DiscoveredRoot,
  answer: Budget,
  warnings: string[],
  discoveryRoot?: InstalledSkill['discoveryRoot'],
): Promise<InstalledSkill[]> {
  const skills: InstalledSkill[] = [];
  const namespaces: { readonly directory: string; readonly name: string }[] = [];
  for (const { path, contents } of root.namespaceManifests) {
    const directory = path.slice(0, path.lastIndexOf('/', path.lastIndexOf('/') - 1));
    await nextTurn();
    namespaces.push({ directory, name: manifestOf(contents)?.name ?? lastSegment(directory) });
  }
  for (const { instructions, metadata } of root.skills) {
    const { path, contents } = instructions;
    await nextTurn();
    try {
      const { name, description, shortDescription } = parseSkillHead(contents);
      const own = name ?? lastSegment(path.slice(0, path.lastIndexOf('/')));
      const [nearest] = namespaces
        .filter(({ directory }) => path.startsWith(`${directory}/`))
        .sort((one, other) => other.directory.length - one.directory.length);
      const fullName = nearest === undefined ? own : `${nearest.name}:${own}`;
      if (isLonger(fullName, MAX_PREFIXED_NAME_CHARACTERS)) {
        throw new YamlError(
          `its name has more than ${MAX_PREFIXED_NAME_CHARACTERS} characters with its prefix`,
        );
      }
      const extras = extrasOf(metadata, warnings);
      const skill = {
        name: fullName,
        description,
        shortDescription,
        path,
        ...extras,
        ...(discoveryRoot && { discoveryRoot }),
      };
      const objection = answer.useJson(skill);
      if (objection === null) skills.push(skill);
      else warnings.push(`skill ${path} is skipped: ${objection}`);
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      warnings.push(`skill ${path} is skipped: ${error.message}`);
    }
  }
  return skills;
}

function extrasOf(metadata: BundledFile | null, warnings: string[]) {
  try {
    return parseSkillExtras(metadata?.contents ?? null);
  } catch (error) {
    if (!(error instanceof YamlLimitError)) throw error;
    warnings.push(`skill metadata ${metadata!.path} is ignored: ${error.message}`);
    return NOTHING;
  }
}

interface Manifest {
  readonly name: string | null;
  readonly displayName: string | null;
  /** The servers declared inline, as JSON. */
  readonly mcpServers: string | null;
}

/** Null when the manifest is invalid. */
export function manifestOf(contents: string): Manifest | null {
  try {
    return readManifest(JSON.parse(contents));
  } catch {
    return null;
  }
}

function readManifest(members: unknown): Manifest | null {
  if (!isObject(members)) return null;
  const { name = null, apps = null, mcpServers } = members;
  const { displayName = null } = isObject(members.interface) ? members.interface : {};
  if (!isTextOrNull(name) || !isTextOrNull(displayName) || !isTextOrNull(apps)) return null;
  if (isDeeper(mcpServers, MAX_MANIFEST_DEPTH)) return null;
  return {
    name: name?.trim() || null,
    displayName: displayName?.trim() || null,
    mcpServers: isObject(mcpServers) ? JSON.stringify(mcpServers) : null,
  };
}

/** Whether a JSON value has more than `limit` levels of arrays and objects. */
function isDeeper(value: unknown, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return limit === 0 || Object.values(value).some((member) => isDeeper(member, limit - 1));
}

/** Returns the last name of a URI as text. The URI may belong to another operating system. */
export function lastSegment(uri: string): string {
  const name = nativePathOfText(uri.slice(uri.lastIndexOf('/') + 1));
  return textOfName(
    name.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
  );
}

/** JSON can contain a lone surrogate, but clients cannot decode a response with one. */
function isTextOrNull(value: unknown): value is string | null {
  return value === null || (typeof value === 'string' && !/\p{Surrogate}/u.test(value));
}
