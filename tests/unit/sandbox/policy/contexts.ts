import type { SandboxContext, SandboxProfile } from '../../../../src/protocol/sandbox.ts';

type Managed = Extract<SandboxProfile['permissions'], { type: 'managed' }>;
export type Entry = Extract<Managed['file_system'], { type: 'restricted' }>['entries'][number];
type Word = Entry['access'];

/** An entry for a path. */
export function at(path: string, access: Word): Entry {
  return { path: { type: 'path', path: `file://${path}` }, access };
}

/** An entry for a special path. */
export function special(kind: 'root' | 'minimal' | 'tmpdir' | 'slash_tmp', access: Word): Entry {
  return { path: { type: 'special', value: { kind } }, access };
}

/** An entry for a path below each workspace root. */
export function inRoots(access: Word, subpath?: string): Entry {
  return { path: { type: 'special', value: { kind: 'project_roots', subpath } }, access };
}

/** An entry for a glob. */
export function glob(pattern: string, access: Word = 'deny'): Entry {
  return { path: { type: 'glob_pattern', pattern }, access };
}

/** A sandbox profile for files and network. */
export function profile(entries: readonly Entry[], rest: Partial<SandboxProfile> = {}): SandboxContext {
  return {
    permissions: {
      type: 'managed',
      file_system: { type: 'restricted', entries: [...entries] },
      network: 'restricted',
    },
    cwd: 'file:///w',
    workspaceRoots: ['file:///w'],
    windowsSandboxLevel: 'disabled',
    useLegacyLandlock: false,
    ...rest,
  };
}
