import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import type { PlanPurpose } from '../../../../src/sandbox/mounts/mount-layout.ts';
import type { MountPlan } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { planMounts } from '../../../../src/sandbox/mounts/plan-mounts.ts';
import { policyOf } from '../../../../src/sandbox/policy/normalize.ts';
import type { DiskPolicy } from '../../../../src/sandbox/policy/policy.ts';
import { at, type Entry, glob, profile, special } from '../policy/contexts.ts';

/** A new directory for each test. Paths that start with `@` are in it. */
export interface Tree {
  readonly path: string;
  real(path: string): string;
  /** Creates files. A name with a slash at its end is a directory, one with `->` a symbolic link. */
  make(...files: string[]): void;
  disk(...entries: Line[]): DiskPolicy;
  plan(disk: DiskPolicy, purpose?: PlanPurpose): Promise<MountPlan>;
}

/** Parses lines such as `read @/a` and `deny @/a/*.env`. `minimal` is the platform. */
export type Line = `${'read' | 'write' | 'deny'} ${string}` | 'minimal';

export function useTree(): Tree {
  let path = '';
  beforeEach(() => {
    path = realpathSync(mkdtempSync(join(tmpdir(), 'mounts-')));
  });
  afterEach(() => rmSync(path, { recursive: true }));
  const real = (text: string) => text.replaceAll('@', path);
  return {
    get path() {
      return path;
    },
    real,
    make: (...files) => {
      for (const file of files.map(real)) {
        const [name = '', target] = file.split(' -> ');
        mkdirSync(name.endsWith('/') ? name : dirname(name), { recursive: true });
        if (target !== undefined) symlinkSync(target, name);
        else if (!name.endsWith('/')) writeFileSync(name, name);
      }
    },
    disk: (...lines) => {
      const { disk } = policyOf(profile(lines.map((line) => entryOf(real(line)))), {
        cwd: null,
        tmpdir: undefined,
      });
      if (disk === 'unrestricted') throw new Error('the policy allows everything');
      return disk;
    },
    plan: (disk, purpose = 'program') => planMounts(disk, localProbe, purpose),
  };
}

function entryOf(line: string): Entry {
  if (line === 'minimal') return special('minimal', 'read');
  const [word, ...path] = line.split(' ');
  const access = word as 'read' | 'write' | 'deny';
  return /[*?[]/.test(line) ? glob(path.join(' ')) : at(path.join(' '), access);
}
