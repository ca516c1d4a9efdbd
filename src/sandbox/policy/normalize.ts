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
import { MAX_DENY_GLOBS, MAX_POLICY_ENTRIES } from '../limits.ts';
import { prepareGlob } from './deny-glob.ts';
import type { Access, DenyGlob, PolicyEntry, SandboxPolicy } from './policy.ts';

/** What a policy may refer to without saying it. */
export interface PolicyHost {
  /** The working directory of the program; null for file operations, which have none. */
  readonly cwd: NativePath | null;
  /** `$TMPDIR` of the program, or of the server for file operations. */
  readonly tmpdir: string | undefined;
}

/** Names directly below a writable root that stay read-only: what is in them is run or trusted by tools outside the sandbox. */
export const PROTECTED_NAMES: readonly string[] = ['.agents', '.aws', '.codex', '.git'];

/**
 * The policy that a context asks for. Throws SandboxError when it contradicts itself, does not fit this host or is more than can be
 * enforced, and PathUriError for what is no path URI at all.
 */
export function policyOf(context: SandboxContext, host: PolicyHost): SandboxPolicy {
  return 'permissions' in context ? policyOfProfile(context, host) : policyOfName(context, host);
}

/**
 * Whether a context leaves all files readable, or writable, whatever it is relative to: then that need not fit this host. Says
 * nothing about contexts that {@link policyOf} finds anything else wrong with.
 */
export function isOpenAnyway(context: SandboxContext, access: 'read' | 'write'): boolean {
  if (!('permissions' in context)) return access === 'read';
  const { permissions } = context;
  if (permissions.type !== 'managed' || permissions.file_system.type === 'unrestricted') return true;
  const { entries } = permissions.file_system;
  const allows = (word: string) => word === 'write' || (access === 'read' && word === 'read');
  const coversAll = ({ path }: Entry) => path.type === 'special' && path.value.kind === 'root';
  return entries.every((entry) => allows(entry.access)) && entries.some(coversAll);
}

/** Throws SandboxError when what a context is relative to is not on this host, even if nothing depends on it. */
export function requirePlaces(context: SandboxContext, host: PolicyHost): void {
  if ('permissions' in context) placesOf(context, host);
}

type NamedSandbox = Exclude<SandboxContext, SandboxProfile>;
type Permissions = SandboxProfile['permissions'];
type FileSystemPermissions = Extract<Permissions, { type: 'managed' }>['file_system'];
type Entry = Extract<FileSystemPermissions, { type: 'restricted' }>['entries'][number];
type SpecialPath = Extract<Entry['path'], { type: 'special' }>['value'];

function policyOfProfile(profile: SandboxProfile, host: PolicyHost): SandboxPolicy {
  // They have no effect here but must be what they claim to be.
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
  const places = placesOf(profile, host);
  if (places.cwd === null && entries.some(dependsOnPlace)) {
    throw new SandboxError('invalid', 'file system sandbox context with dynamic permissions requires cwd');
  }
  const draft = new PolicyDraft(glob_scan_max_depth ?? null);
  for (const entry of entries) addEntry(draft, entry, places, host);
  const policy = draft.finish(network);
  if (profile.useLegacyLandlock && policy.disk !== 'unrestricted') {
    throw new SandboxError(
      'invalid',
      'filesystem-restricted execution requires bubblewrap; leave out `useLegacyLandlock`',
    );
  }
  return policy;
}

/** The classic forms: everything is readable, and a workspace with the temporary directories may be writable. */
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
/** In front of a pattern: it is meant below every workspace root. */
const PROJECT_ROOTS_SCHEME = 'codex-project-roots://';

/** What the relative parts of a policy are relative to. */
interface Places {
  readonly cwd: NativePath | null;
  readonly workspaceRoots: readonly NativePath[];
}

function placesOf({ cwd, workspaceRoots, policyContext }: SandboxProfile, host: PolicyHost): Places {
  const from = policyContext?.cwd ?? cwd;
  return {
    cwd: from ? nativeCwd(from) : host.cwd,
    workspaceRoots: (policyContext?.workspaceRoots ?? workspaceRoots).map(nativeRoot),
  };
}

function dependsOnPlace({ path }: Entry): boolean {
  if (path.type === 'glob_pattern') return !path.pattern.startsWith('/');
  return path.type === 'special' && isProjectRoots(path.value);
}

function addEntry(draft: PolicyDraft, { path, access: word }: Entry, places: Places, host: PolicyHost): void {
  const access = word === 'none' ? 'deny' : word;
  if (path.type === 'path') {
    draft.add(native(path.path, 'foreignRule', 'invalid sandbox permission path URI: '), access);
  } else if (path.type === 'special') {
    addSpecial(draft, path.value, access, places, host);
  } else if (access === 'deny') {
    for (const pattern of absolutePatterns(path.pattern, places)) draft.denyGlob(pattern);
  }
}

function addSpecial(
  draft: PolicyDraft,
  special: SpecialPath,
  access: Access,
  { workspaceRoots }: Places,
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

function absolutePatterns(pattern: string, { cwd, workspaceRoots }: Places): NativePath[] {
  if (pattern.startsWith(PROJECT_ROOTS_SCHEME)) {
    const rest = pattern.slice(PROJECT_ROOTS_SCHEME.length).replace(/^\/+/, '');
    return workspaceRoots.map((root) => joinPattern(root, rest));
  }
  if (pattern.startsWith('/')) return [nativePathOfText(pattern)];
  // Without a directory the policy was refused before.
  return cwd === null ? [] : [joinPattern(cwd, pattern)];
}

/** The directory is meant as it is, whatever characters its name has. */
function joinPattern(directory: NativePath, pattern: string): NativePath {
  const literal = directory.replace(/[*?[\]{}\\]/g, '\\$&');
  return childPath(nativePathOfBytes(literal), nativePathOfText(pattern));
}

/** A place below a workspace root. A way out of it cannot be meant: what it grants or denies would lie elsewhere. */
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

/** A URI of another host is a fault of the policy; one that is no URI is a fault of the message, as everywhere. */
function native(uri: string, kind: SandboxErrorKind, prefix: string): NativePath {
  try {
    return pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError) || error.kind === 'syntax') throw error;
    throw new SandboxError(kind, `${prefix}${error.message}`);
  }
}

/** Gathers what a policy says and puts it in order. */
class PolicyDraft {
  readonly #maxDepth: number | null;
  readonly #said = new Map<NativePath, Access>();
  readonly #globs = new Map<NativePath, DenyGlob>();
  #platform = false;

  constructor(maxDepth: number | null) {
    this.#maxDepth = maxDepth;
  }

  /** Of several entries for one path the strongest holds: deny, then write, then read. */
  add(path: NativePath, access: Access): void {
    const said = this.#said.get(path);
    if (said === undefined || STRENGTH[access] > STRENGTH[said]) this.#said.set(path, access);
    this.#checkSize();
  }

  denyGlob(pattern: NativePath): void {
    const glob = { pattern, maxDepth: this.#maxDepth };
    prepareGlob(glob);
    this.#globs.set(pattern, glob);
    if (this.#globs.size > MAX_DENY_GLOBS) {
      throw new SandboxError('invalid', `the sandbox has more than ${MAX_DENY_GLOBS} deny patterns`);
    }
  }

  allowPlatform(): void {
    this.#platform = true;
  }

  finish(network: SandboxPolicy['network']): SandboxPolicy {
    const base = this.#said.get(ROOT) ?? 'deny';
    const denyGlobs = [...this.#globs.keys()].sort().map((pattern) => this.#globs.get(pattern)!);
    const narrows = denyGlobs.length > 0 || [...this.#said.values()].some((access) => access !== 'write');
    if (base === 'write' && !narrows) return { disk: 'unrestricted', network };
    const entries = this.#entries();
    return { disk: { base, platform: this.#platform && base === 'deny', entries, denyGlobs }, network };
  }

  #entries(): PolicyEntry[] {
    const entries = new Map<NativePath, PolicyEntry>();
    for (const [path, access] of this.#effective()) {
      if (path !== ROOT) entries.set(path, { path, access, byName: false });
    }
    for (const [root, access] of this.#said) {
      if (access !== 'write') continue;
      for (const name of PROTECTED_NAMES) {
        const path = childPath(root, name);
        const said = this.#said.get(path) ?? 'read';
        // To say so does not make the protection another one.
        if (said === 'read') entries.set(path, { path, access: 'read', byName: true });
      }
    }
    this.#checkSize(entries.size);
    return [...entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** What was said, without reading inside what is denied: only writing reopens that. */
  #effective(): [NativePath, Access][] {
    const kept: [NativePath, Access][] = [];
    for (const path of [...this.#said.keys()].sort()) {
      const access = this.#said.get(path)!;
      const around = kept.findLast(([other]) => other !== ROOT && isWithin(path, other));
      if (access !== 'read' || around?.[1] !== 'deny') kept.push([path, access]);
    }
    return kept;
  }

  #checkSize(entries = this.#said.size): void {
    if (entries <= MAX_POLICY_ENTRIES) return;
    throw new SandboxError('invalid', `the sandbox names more than ${MAX_POLICY_ENTRIES} paths`);
  }
}

const STRENGTH: Readonly<Record<Access, number>> = { read: 0, write: 1, deny: 2 };
