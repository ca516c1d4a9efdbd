import type { ResultOf } from '../../protocol/registry.ts';
import { MAX_SKILL_NAME_CHARACTERS, MAX_TOOL_KIND_CHARACTERS, MAX_TOOL_TEXT_CHARACTERS } from '../limits.ts';
import {
  isYamlMap,
  parseFrontMatter,
  parseYaml,
  YamlError,
  YamlLimitError,
  type YamlValue,
} from './skill-yaml.ts';

type InstalledSkill = ResultOf<'capabilities/discoverV2'>['skills'][number];

/** The front matter of a `SKILL.md`. */
interface SkillHead {
  /** Null when it has none; then the name of its directory is used. */
  readonly name: string | null;
  readonly description: string;
  readonly shortDescription: string | null;
}

/** Metadata of a skill from its `openai.yaml`. */
type SkillExtras = Pick<InstalledSkill, 'dependencies' | 'policy'>;

/**
 * Parses the front matter of a `SKILL.md`: YAML between two lines of dashes, at the start of the file. Throws {@link YamlError}
 * when it is unusable.
 */
export function parseSkillHead(instructions: string): SkillHead {
  const head = /^---[ \t]*\r?\n([\s\S]*?)(?:^|\n)---[ \t]*(?:\r?\n|$)/.exec(instructions)?.[1];
  if (head === undefined) throw new YamlError('it does not start with front matter between lines of ---');
  const members = parseFrontMatter(head);
  if (!isYamlMap(members)) throw new YamlError('its front matter is not a mapping');
  for (const key of ['name', 'description']) {
    if (typeof (members[key] ?? '') !== 'string') throw new YamlError(`its ${key} is not text`);
  }
  const name = oneLine(members.name);
  const description = oneLine(members.description);
  if (description === null) throw new YamlError('it has no description');
  if (name !== null && isLonger(name, MAX_SKILL_NAME_CHARACTERS)) {
    throw new YamlError(`its name has more than ${MAX_SKILL_NAME_CHARACTERS} characters`);
  }
  const more = isYamlMap(members.metadata) ? members.metadata : {};
  return { name, description, shortDescription: oneLine(more['short-description']) };
}

/**
 * Parses the part of an `openai.yaml` that concerns running a skill. An invalid file counts as empty. Throws {@link YamlLimitError}
 * when it exceeds a limit.
 */
export function parseSkillExtras(metadata: string | null): SkillExtras {
  if (metadata === null) return NOTHING;
  try {
    const members = parseYaml(metadata);
    if (!isYamlMap(members)) return NOTHING;
    return { dependencies: dependenciesOf(members.dependencies), policy: policyOf(members.policy) };
  } catch (error) {
    if (!(error instanceof YamlError) || error instanceof YamlLimitError) throw error;
    return NOTHING;
  }
}

/** The metadata of a skill without a usable `openai.yaml`. */
export const NOTHING: SkillExtras = { dependencies: null, policy: null };

/** Collapses white space to single spaces; null when nothing is left, or more than `limit` characters. */
function oneLine(value: YamlValue | undefined, limit = Number.POSITIVE_INFINITY): string | null {
  if (typeof value !== 'string') return null;
  const line = value.replace(/\s+/g, ' ').trim();
  return line === '' || isLonger(line, limit) ? null : line;
}

/** Whether a text has more than `limit` characters. A character has one or two code units. */
export function isLonger(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  return text.length > 2 * limit || [...text].length > limit;
}

function dependenciesOf(value: YamlValue | undefined): SkillExtras['dependencies'] {
  if (value == null) return null;
  if (!isYamlMap(value)) throw new YamlError('dependencies is not a mapping');
  const { tools = null } = value;
  if (tools === null) return null;
  if (!Array.isArray(tools)) throw new YamlError('dependencies.tools is not a list');
  const known = (tools as readonly YamlValue[]).flatMap((tool) => toolOf(tool) ?? []);
  return known.length === 0 ? null : { tools: known };
}

/** Null for a tool without a type or value. A text that is too long counts as missing. */
function toolOf(value: YamlValue) {
  if (!isYamlMap(value)) throw new YamlError('a tool is not a mapping');
  const kind = (key: string) => oneLine(value[key], MAX_TOOL_KIND_CHARACTERS);
  const text = (key: string) => oneLine(value[key], MAX_TOOL_TEXT_CHARACTERS);
  const [type, name] = [kind('type'), text('value')];
  if (type === null || name === null) return null;
  return {
    type,
    value: name,
    description: text('description'),
    transport: kind('transport'),
    command: text('command'),
    url: text('url'),
    oauthCallbackPort: null,
  };
}

function policyOf(value: YamlValue | undefined): SkillExtras['policy'] {
  if (value == null) return null;
  if (!isYamlMap(value)) throw new YamlError('policy is not a mapping');
  const { allow_implicit_invocation: implicit = null, products = [] } = value;
  if (products !== null && !Array.isArray(products)) throw new YamlError('products is not a list');
  return {
    allowImplicitInvocation: implicit === null ? null : booleanOf(implicit, 'allow_implicit_invocation'),
    products: ((products ?? []) as readonly YamlValue[]).map(productOf),
  };
}

function booleanOf(value: YamlValue, key: string): boolean {
  if (typeof value === 'string' && /^(?:true|True|TRUE)$/.test(value)) return true;
  if (typeof value === 'string' && /^(?:false|False|FALSE)$/.test(value)) return false;
  throw new YamlError(`${key} is neither true nor false`);
}

function productOf(value: YamlValue): string {
  const product = typeof value === 'string' ? value.toLowerCase() : '';
  if (PRODUCTS.has(product)) return product;
  throw new YamlError('an unknown product');
}

const PRODUCTS = new Set(['chatgpt', 'codex', 'atlas']);
