import { ProcessError } from './errors.ts';
import { MAX_GLOB_WORK } from './limits.ts';

/** How the child's environment is derived from the server's. */
export interface EnvPolicy {
  readonly inherit: 'all' | 'core' | 'none';
  readonly ignoreDefaultExcludes: boolean;
  readonly exclude: readonly string[];
  readonly set: Readonly<Record<string, string>>;
  readonly includeOnly: readonly string[];
}

/** Identifiers that a caller passes to the child. */
export interface EnvMetadata {
  readonly threadId?: string | null | undefined;
  readonly toolCallId?: string | null | undefined;
}

/** Everything that determines a child's environment. */
interface EnvRequest {
  readonly env: Readonly<Record<string, string>>;
  readonly policy: EnvPolicy | null;
  readonly metadata: EnvMetadata | null;
}

/** Builds the child's environment. Without a policy it is `env` alone. The server's secrets are never passed on. */
export function childEnvironment(
  request: EnvRequest,
  serverEnv: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const { policy } = request;
  return environmentOver(
    policy === null ? {} : filtered(policy, inherited(policy.inherit, serverEnv)),
    request,
  );
}

/** Builds the child's environment from what a login shell exported. The policy's filters apply, and `env` overrides the rest. */
export function childEnvironmentAfterLogin(
  request: EnvRequest,
  exported: Readonly<Record<string, string>>,
): Record<string, string> {
  return environmentOver(request.policy === null ? exported : filtered(request.policy, exported), request);
}

/** The variables that every program needs. */
export const CORE_NAMES: ReadonlySet<string> = new Set([
  'PATH',
  'SHELL',
  'TMPDIR',
  'TEMP',
  'TMP',
  'HOME',
  'LANG',
  'LC_ALL',
  'LC_CTYPE',
  'LOGNAME',
  'USER',
]);
const DEFAULT_EXCLUDES = ['*KEY*', '*SECRET*', '*TOKEN*'];
const SECRET_NAMES = new Set([
  'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN',
  'NODE_REPL_AUTH_TOKEN',
  'OPENAI_FEDERATION_RULE_ID',
  'OPENAI_IDENTITY_TOKEN_FILE',
  'OPENAI_WORKLOAD_IDENTITY_CONTEXT',
]);
const SERVER_ONLY_NAMES = new Set(['CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE', 'CODEX_TOOL_CALL_ID']);
/**
 * Variables that concern the server process itself: what the dynamic loader loads into it, and its settings, which include the
 * paths of its keys. A caller that wants a child to have such a variable sends it in `env`.
 */
const SERVER_ONLY_PREFIXES = ['LD_', 'DYLD_', 'EXEC_SERVER_'];

type Variables = Record<string, string>;

function environmentOver(base: Readonly<Variables>, { env, metadata }: EnvRequest): Variables {
  return withMetadata(withoutSecrets({ ...base, ...env }), metadata);
}

function filtered(policy: EnvPolicy, candidates: Readonly<Variables>): Variables {
  let variables: Variables = candidates;
  if (!policy.ignoreDefaultExcludes) variables = without(variables, DEFAULT_EXCLUDES);
  variables = without(variables, policy.exclude);
  variables = { ...variables, ...policy.set };
  return policy.includeOnly.length === 0 ? variables : onlyMatching(variables, policy.includeOnly);
}

function inherited(
  inherit: EnvPolicy['inherit'],
  serverEnv: Readonly<Record<string, string | undefined>>,
): Variables {
  if (inherit === 'none') return {};
  const defined = Object.entries(serverEnv).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !concernsServer(entry[0]),
  );
  const kept = inherit === 'all' ? defined : defined.filter(([name]) => CORE_NAMES.has(name.toUpperCase()));
  return Object.fromEntries(kept);
}

function concernsServer(name: string): boolean {
  return SERVER_ONLY_PREFIXES.some((prefix) => name.startsWith(prefix));
}

function without(variables: Variables, globs: readonly string[]): Variables {
  const matches = matcher(variables, globs);
  return filterNames(variables, (name) => !matches(name));
}

function onlyMatching(variables: Variables, globs: readonly string[]): Variables {
  return filterNames(variables, matcher(variables, globs));
}

function withoutSecrets(variables: Variables): Variables {
  return filterNames(
    variables,
    (name) => !SECRET_NAMES.has(name.toUpperCase()) && !SERVER_ONLY_NAMES.has(name),
  );
}

function withMetadata(variables: Variables, metadata: EnvMetadata | null): Variables {
  if (metadata === null) return variables;
  const { CODEX_THREAD_ID: _dropped, ...rest } = variables;
  if (metadata.threadId != null) rest.CODEX_THREAD_ID = canonicalUuid(metadata.threadId);
  if (metadata.toolCallId != null) rest.CODEX_TOOL_CALL_ID = metadata.toolCallId;
  return rest;
}

function canonicalUuid(text: string): string {
  const hex = text
    .replace(/^urn:uuid:/, '')
    .replace(/[{}-]/g, '')
    .toLowerCase();
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function filterNames(variables: Variables, keep: (name: string) => boolean): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([name]) => keep(name)));
}

/** Returns a test for names that match any of the globs. Throws when matching would keep the server busy for too long. */
function matcher(variables: Variables, globs: readonly string[]): (name: string) => boolean {
  if (totalLength(Object.keys(variables)) * totalLength(globs) > MAX_GLOB_WORK) {
    throw new ProcessError('policyTooLarge', 'envPolicy has too many or too long names and globs');
  }
  const folded = globs.map((glob) => glob.toLowerCase());
  return (name) => {
    const foldedName = name.toLowerCase();
    return folded.some((glob) => matchesGlob(foldedName, glob));
  };
}

/** Counts one more than the characters of each text, because an empty one costs time too. */
function totalLength(texts: readonly string[]): number {
  return texts.reduce((total, text) => total + text.length + 1, 0);
}

/** Supports only `*` and `?` and matches the whole name. Takes linear space and at worst quadratic time, for any pattern. */
function matchesGlob(name: string, glob: string): boolean {
  let at = 0;
  let inGlob = 0;
  let star = -1;
  let starAt = 0;
  while (at < name.length) {
    if (glob[inGlob] === '*') {
      star = inGlob++;
      starAt = at;
    } else if (glob[inGlob] === '?' || (inGlob < glob.length && glob[inGlob] === name[at])) {
      at++;
      inGlob++;
    } else if (star >= 0) {
      inGlob = star + 1;
      at = ++starAt;
    } else {
      return false;
    }
  }
  while (glob[inGlob] === '*') inGlob++;
  return inGlob === glob.length;
}
