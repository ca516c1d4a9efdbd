import { normalize } from 'node:path/posix';
import {
  childPath,
  isWithin,
  type NativePath,
  nativePathOfBytes,
  nativePathOfText,
} from '../../files/native-path.ts';
import { PathUriError, pathFromUri, spelledUri } from '../../files/path-uri.ts';
import type { SandboxContext, SandboxProfile } from '../../protocol/sandbox.ts';
import { SandboxError, type SandboxErrorKind } from '../errors.ts';
import { MAX_DENY_GLOB_STEPS, MAX_DENY_GLOBS, MAX_POLICY_ENTRIES } from '../limits.ts';
import { prepareGlob } from './deny-glob.ts';
import type { Access, DenyGlob, PolicyEntry, SandboxPolicy } from './policy.ts';

/** Values that a policy may refer to implicitly. */
export interface PolicyHost {
  /** The working directory of the program; null for file operations, which have none. */
  readonly cwd: NativePath | null;
  /** `$TMPDIR` of the program, or of the server for file operations. */
  readonly tmpdir: string | undefined;
}

/** Names directly below a writable root that stay read-only, because tools outside of the sandbox run or trust their content. */
export const PROTECTED_NAMES: readonly string[] = ['.agents', '.aws', '.codex', '.git'];

/** Names that are directories: a read-only entry for one that does not exist shows an empty directory, and for others an empty file. */
export const DIRECTORY_NAMES: readonly string[] = [...PROTECTED_NAMES, '.claude', '.cursor', '.vscode'];

/**
 * Normalizes the sandbox of a request. Throws SandboxError when it is contradictory, meant for another platform, or too large to enforce.
 * Throws PathUriError for an invalid path URI.
 */
export function policyOf(context: SandboxContext, host: PolicyHost): SandboxPolicy {
  return 'permissions' in context ? policyOfProfile(context, host) : policyOfName(context, host);
}

/**
 * Whether a context allows reading, or writing, every file. Then its base paths need not be valid on this host. The result is only
 * meaningful for contexts in which {@link policyOf} finds no other error.
 */
export function allowsEveryFile(context: SandboxContext, access: 'read' | 'write'): boolean {
  if (!('permissions' in context)) return access === 'read';
  const { permissions } = context;
  if (permissions.type !== 'managed' || permissions.file_system.type === 'unrestricted') return true;
  const { entries } = permissions.file_system;
  const allows = (value: string) => value === 'write' || (access === 'read' && value === 'read');
  const coversAll = ({ path }: Entry) => path.type === 'special' && path.value.kind === 'root';
  return entries.every((entry) => allows(entry.access)) && entries.some(coversAll);
}

/** Throws SandboxError when a base path of the context is invalid on this host, even if no entry depends on it. */
export function requireValidRoots(context: SandboxContext, host: PolicyHost): void {
  if ('permissions' in context) policyRootsOf(context, host);
}

type NamedSandbox = Exclude<SandboxContext, SandboxProfile>;
type Permissions = SandboxProfile['permissions'];
type FileSystemPermissions = Extract<Permissions, { type: 'managed' }>['file_system'];
type Entry = Extract<FileSystemPermissions, { type: 'restricted' }>['entries'][number];
type SpecialPath = Extract<Entry['path'], { type: 'special' }>['value'];

function policyOfProfile(profile: SandboxProfile, host: PolicyHost): SandboxPolicy {
  // They have no effect here but must be valid URIs.
  for (const uri of [profile.userHomeDir ?? [], profile.temporaryDirectories ?? []].flat()) spelledUri(uri);
  if (profile.windowsSandboxLevel === 'mxc') {
    throw new SandboxError('unsuitable', 'native MXC is unavailable on this executor');
  }
  const { permissions } = profile;
  const network = permissions.type === 'disabled' ? 'enabled' : permissions.network;
  if (permissions.type !== 'managed' || permissions.file_system.type === 'unrestricted') {
    return { disk: 'unrestricted', network };
  }
  const { entries, glob_scan_max_depth } = permissions.file_system;
  const roots = policyRootsOf(profile, host);
  if (roots.cwd === null && entries.some(isRelative)) {
    throw new SandboxError('invalid', 'file system sandbox context with dynamic permissions requires cwd');
  }
  const draft = new PolicyDraft(glob_scan_max_depth ?? null);
  for (const entry of entries) addEntry(draft, entry, roots, host);
  const policy = draft.finish(network);
  if (profile.useLegacyLandlock && policy.disk !== 'unrestricted') {
    throw new SandboxError(
      'invalid',
      'filesystem-restricted execution requires bubblewrap; leave out `useLegacyLandlock`',
    );
  }
  return policy;
}

/** The forms `readOnly` and `workspaceWrite`: every file is readable, and the workspace and temporary directories may be writable. */
function policyOfName(named: NamedSandbox, host: PolicyHost): SandboxPolicy {
  const draft = new PolicyDraft(null);
  draft.add(ROOT, 'read');
  if (named.type === 'workspaceWrite') {
    const cwd = named.cwd ? nativeCwd(named.cwd) : host.cwd;
    if (cwd === null) throw new SandboxError('invalid', 'the sandbox `workspaceWrite` requires cwd');
    draft.add(cwd, 'write');
    for (const uri of named.writableRoots) draft.add(nativeRoot(uri), 'write');
    const tmpdir = named.excludeTmpdirEnvVar ? null : tmpdirOf(host);
    if (tmpdir !== null) draft.add(tmpdir, 'write');
    if (!named.excludeSlashTmp) draft.add(SLASH_TMP, 'write');
  }
  return draft.finish(named.networkAccess ? 'enabled' : 'restricted');
}

const ROOT = nativePathOfBytes('/');
const SLASH_TMP = nativePathOfBytes('/tmp');
/** The prefix of a glob that applies below every workspace root. */
const PROJECT_ROOTS_SCHEME = 'codex-project-roots://';

/** The base paths of relative entries. */
interface PolicyRoots {
  readonly cwd: NativePath | null;
  readonly workspaceRoots: readonly NativePath[];
}

function policyRootsOf(
  { cwd, workspaceRoots, policyContext }: SandboxProfile,
  host: PolicyHost,
): PolicyRoots {
  const from = policyContext?.cwd ?? cwd;
  return {
    cwd: from ? nativeCwd(from) : host.cwd,
    workspaceRoots: (policyContext?.workspaceRoots ?? workspaceRoots).map(nativeRoot),
  };
}

function isRelative({ path }: Entry): boolean {
  if (path.type === 'glob_pattern') return !path.pattern.startsWith('/');
  return path.type === 'special' && isProjectRoots(path.value);
}

function addEntry(
  draft: PolicyDraft,
  { path, access: value }: Entry,
  roots: PolicyRoots,
  host: PolicyHost,
): void {
  const access = value === 'none' ? 'deny' : value;
  if (path.type === 'path') {
    draft.add(native(path.path, 'foreignRule', 'invalid sandbox permission path URI: '), access);
  } else if (path.type === 'special') {
    addSpecial(draft, path.value, access, roots, host);
  } else if (access === 'deny') {
    for (const pattern of absolutePatterns(path.pattern, roots)) draft.denyGlob(pattern);
  }
}

function addSpecial(
  draft: PolicyDraft,
  special: SpecialPath,
  access: Access,
  { workspaceRoots }: PolicyRoots,
  host: PolicyHost,
): void {
  if (isProjectRoots(special)) {
    for (const root of workspaceRoots) draft.add(below(root, special.subpath ?? ''), access);
  } else if (special.kind === 'root') {
    draft.add(ROOT, access);
  } else if (special.kind === 'slash_tmp') {
    draft.add(SLASH_TMP, access);
  } else if (special.kind === 'tmpdir') {
    const tmpdir = tmpdirOf(host);
    if (tmpdir !== null) draft.add(tmpdir, access);
  } else if (special.kind === 'minimal' && access !== 'deny') {
    draft.allowPlatform();
  }
}

function isProjectRoots(
  special: SpecialPath,
): special is Extract<SpecialPath, { kind: 'project_roots' | 'current_working_directory' }> {
  return special.kind === 'project_roots' || special.kind === 'current_working_directory';
}

function absolutePatterns(pattern: string, { cwd, workspaceRoots }: PolicyRoots): NativePath[] {
  if (pattern.startsWith(PROJECT_ROOTS_SCHEME)) {
    const rest = pattern.slice(PROJECT_ROOTS_SCHEME.length).replace(/^\/+/, '');
    return workspaceRoots.map((root) => joinPattern(root, rest));
  }
  if (pattern.startsWith('/')) return [nativePathOfText(pattern)];
  // A relative glob without cwd was refused before.
  return cwd === null ? [] : [joinPattern(cwd, pattern)];
}

/** Escapes the directory, so that its characters have no special meaning. */
function joinPattern(directory: NativePath, pattern: string): NativePath {
  const literal = directory.replace(/[*?[\]{}\\]/g, '\\$&');
  return childPath(nativePathOfBytes(literal), nativePathOfText(pattern));
}

/** A path below a workspace root. Throws if the subpath leads out of it. */
function below(root: NativePath, subpath: string): NativePath {
  const names = subpath.split('/').filter((name) => name !== '' && name !== '.');
  if (subpath.startsWith('/') || names.includes('..') || subpath.includes('\0')) {
    throw new SandboxError('invalid', `the subpath \`${subpath}\` leads out of its workspace root`);
  }
  return names.length === 0 ? root : childPath(root, nativePathOfText(names.join('/')));
}

function tmpdirOf({ tmpdir }: PolicyHost): NativePath | null {
  if (!tmpdir?.startsWith('/') || tmpdir.includes('\0')) return null;
  const path = normalize(tmpdir);
  return nativePathOfText(path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path);
}

function nativeRoot(uri: string): NativePath {
  return native(
    uri,
    'unsuitable',
    `sandbox workspace root URI \`${uri}\` is not valid on this exec-server host: `,
  );
}

function nativeCwd(uri: string): NativePath {
  return native(uri, 'unsuitable', `sandbox cwd URI \`${uri}\` is not valid on this exec-server host: `);
}

/** A URI of another platform is an error of the policy. An invalid URI is an error of the message, as in all requests. */
function native(uri: string, kind: SandboxErrorKind, prefix: string): NativePath {
  try {
    return pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError) || error.kind === 'syntax') throw error;
    throw new SandboxError(kind, `${prefix}${error.message}`);
  }
}

/** Collects the entries of a policy and sorts them. */
class PolicyDraft {
  readonly #maxDepth: number | null;
  readonly #access = new Map<NativePath, Access>();
  readonly #globs = new Map<NativePath, DenyGlob>();
  #globSteps = 0;
  #platform = false;

  constructor(maxDepth: number | null) {
    this.#maxDepth = maxDepth;
  }

  /** If a path has several entries, the strongest access wins: deny, then write, then read. */
  add(path: NativePath, access: Access): void {
    const known = this.#access.get(path);
    if (known === undefined || STRENGTH[access] > STRENGTH[known]) this.#access.set(path, access);
    this.#checkSize();
  }

  denyGlob(pattern: NativePath): void {
    if (this.#globs.has(pattern)) return;
    const glob = { pattern, maxDepth: this.#maxDepth };
    this.#globSteps += prepareGlob(glob).globs.stepsPerCharacter;
    this.#globs.set(pattern, glob);
    if (this.#globs.size > MAX_DENY_GLOBS) {
      throw new SandboxError('invalid', `the sandbox has more than ${MAX_DENY_GLOBS} deny patterns`);
    }
    if (this.#globSteps > MAX_DENY_GLOB_STEPS) {
      throw new SandboxError(
        'invalid',
        'the deny patterns of the sandbox are too long together; use fewer or shorter ones, with fewer braces',
      );
    }
  }

  allowPlatform(): void {
    this.#platform = true;
  }

  finish(network: SandboxPolicy['network']): SandboxPolicy {
    const base = this.#access.get(ROOT) ?? 'deny';
    const denyGlobs = [...this.#globs.keys()].sort().map((pattern) => this.#globs.get(pattern)!);
    const narrows = denyGlobs.length > 0 || [...this.#access.values()].some((access) => access !== 'write');
    if (base === 'write' && !narrows) return { disk: 'unrestricted', network };
    const entries = this.#entries();
    return { disk: { base, platform: this.#platform && base === 'deny', entries, denyGlobs }, network };
  }

  #entries(): PolicyEntry[] {
    const entries = new Map<NativePath, PolicyEntry>();
    for (const [path, access] of this.#effective()) {
      if (path !== ROOT) entries.set(path, { path, access, byName: false });
    }
    for (const [root, access] of this.#access) {
      if (access !== 'write') continue;
      for (const name of PROTECTED_NAMES) {
        const path = childPath(root, name);
        const known = this.#access.get(path) ?? 'read';
        // An explicit read entry does not change the protection.
        if (known === 'read') entries.set(path, { path, access: 'read', byName: true });
      }
    }
    this.#checkSize(entries.size);
    return [...entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** Drops read entries inside of denied paths. Only a write entry allows access there again. */
  #effective(): [NativePath, Access][] {
    const kept: [NativePath, Access][] = [];
    // The kept entries around the path, the innermost last.
    const around: [NativePath, Access][] = [];
    for (const path of inTreeOrder([...this.#access.keys()])) {
      while (around.length > 0 && !isWithin(path, around.at(-1)![0])) around.pop();
      const access = this.#access.get(path)!;
      if (access === 'read' && around.at(-1)?.[1] === 'deny') continue;
      kept.push([path, access]);
      if (path !== ROOT) around.push([path, access]);
    }
    return kept;
  }

  #checkSize(entries = this.#access.size): void {
    if (entries <= MAX_POLICY_ENTRIES) return;
    throw new SandboxError('invalid', `the sandbox names more than ${MAX_POLICY_ENTRIES} paths`);
  }
}

/** Sorted so that everything below a path directly follows it. Without the slash, `/a-b` would be between `/a` and `/a/b`. */
function inTreeOrder(paths: readonly NativePath[]): NativePath[] {
  const keys = paths.map((path) => `${path}/`).sort();
  return keys.map((key) => nativePathOfBytes(key.slice(0, -1)));
}

const STRENGTH: Readonly<Record<Access, number>> = { read: 0, write: 1, deny: 2 };
