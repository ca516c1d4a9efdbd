import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FairShares } from '../../../../src/base/fair-shares.ts';
import { childPath, nativePathOfText, systemPath } from '../../../../src/files/native-path.ts';
import { loadCachedCalls } from '../../../../src/native/cached-calls.ts';
import { loadLibc } from '../../../../src/native/libc.ts';
import type { SandboxCalls } from '../../../../src/process/spawn/spawner.ts';
import { SandboxError } from '../../../../src/sandbox/errors.ts';
import { MAX_PLACEHOLDERS } from '../../../../src/sandbox/linux/limits.ts';
import { PlanOutdatedError } from '../../../../src/sandbox/linux/placeholder-entries.ts';
import { Placeholders } from '../../../../src/sandbox/linux/placeholders.ts';
import { PLACEHOLDER_MODES, type Placeholder } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { openDescriptors } from '../../../support/children.ts';
import { withFreeDescriptors } from '../../../support/descriptor-limit.ts';
import { waitFor } from '../../../support/wait-for.ts';

const libc = loadLibc();
const cached = await loadCachedCalls();
let folder: string;
let descriptors: number;

/** The placeholders of one server. Records the paths that it registers with the watchdog. */
function server(lock: SandboxCalls['lock'] = (fd, mode) => libc.lock(fd, mode), descriptors?: FairShares) {
  const watched = new Set<string>();
  const calls: ConstructorParameters<typeof Placeholders>[0] = {
    lock,
    openCached: cached.openPath,
    removeAfterDeath: (path) => {
      watched.add(path);
      return () => {
        watched.delete(path);
      };
    },
  };
  return { placeholders: new Placeholders(calls, descriptors), watched };
}

const at = (name: string, kind: Placeholder['kind'] = 'directory'): Placeholder => ({
  path: childPath(nativePathOfText(folder), name),
  kind,
});
const mode = (name: string) => lstatSync(join(folder, name)).mode & 0o7777;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'placeholders-'));
  descriptors = openDescriptors();
});

afterEach(async () => {
  await waitFor('every descriptor to be closed', () => openDescriptors() === descriptors);
  rmSync(folder, { recursive: true });
});

const umask = process.umask(0o022);
afterAll(() => void process.umask(umask));

describe('a held placeholder', () => {
  test('exists, is registered with the watchdog, and is removed on release', async () => {
    const { placeholders, watched } = server();
    const wanted = [at('.git'), at('.env', 'file')];
    const { release, identities } = await placeholders.hold(wanted);
    expect(readdirSync(folder).sort()).toEqual(['.env', '.git']);
    expect([mode('.git'), mode('.env')]).toEqual([PLACEHOLDER_MODES.directory, PLACEHOLDER_MODES.file]);
    expect([...watched].sort()).toEqual(wanted.map(({ path }) => path).sort());
    for (const { path, kind } of wanted) {
      const { dev, ino } = lstatSync(path, { bigint: true });
      expect(identities.get(path)).toBe(`${dev}:${ino}:${kind}`);
    }
    await release();
    expect(readdirSync(folder)).toEqual([]);
    expect(watched.size).toBe(0);
  });

  test('has its mode regardless of the umask', async () => {
    process.umask(0o777);
    const { placeholders } = server();
    const { release } = await placeholders.hold([at('.git'), at('.env', 'file')]);
    process.umask(0o022);
    expect([mode('.git'), mode('.env')]).toEqual([PLACEHOLDER_MODES.directory, PLACEHOLDER_MODES.file]);
    await release();
  });

  test('can be held by the servers of other users', async () => {
    chmodSync(folder, 0o755);
    const { release } = await server().placeholders.hold([at('.git'), at('.env', 'file')]);
    const nobody = { uid: 65_534, gid: 65_534 };
    for (const name of ['.git', '.env']) {
      expect(spawnSync('flock', ['-sn', join(folder, name), 'true'], nobody).status).toBe(0);
    }
    await release();
  });

  test('may have a name that is not UTF-8', async () => {
    const { placeholders } = server();
    const wanted = at('\xff\xfe');
    const { release } = await placeholders.hold([wanted]);
    expect(lstatSync(systemPath(wanted.path)).isDirectory()).toBe(true);
    await release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('stays until its last user is gone, of the same server and of others', async () => {
    const [a, b] = [server(), server()];
    const releases = await Promise.all(
      [a, a, b, b].map(({ placeholders }) => placeholders.hold([at('.git')])),
    );
    const { ino } = lstatSync(join(folder, '.git'));
    for (const { release } of releases) {
      expect(lstatSync(join(folder, '.git')).ino).toBe(ino);
      await release();
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  test('is created again after its directory was moved, and both are removed', async () => {
    const { placeholders } = server();
    mkdirSync(join(folder, 'a'));
    const first = await placeholders.hold([at('a/.git')]);
    renameSync(join(folder, 'a'), join(folder, 'b'));
    mkdirSync(join(folder, 'a'));
    const second = await placeholders.hold([at('a/.git')]);
    const third = await placeholders.hold([at('a/.git')]);
    expect([readdirSync(join(folder, 'a')), readdirSync(join(folder, 'b'))]).toEqual([['.git'], ['.git']]);
    await first.release();
    expect([readdirSync(join(folder, 'a')), readdirSync(join(folder, 'b'))]).toEqual([['.git'], []]);
    await second.release();
    expect(readdirSync(join(folder, 'a'))).toEqual(['.git']);
    await third.release();
    expect(readdirSync(join(folder, 'a'))).toEqual([]);
  });

  test('is the same entry for all concurrent users', async () => {
    const servers = [server(), server(), server()];
    let rounds = 0;
    const use = async ({ placeholders }: ReturnType<typeof server>) => {
      for (let round = 0; round < 40; round++) {
        const { release } = await placeholders.hold([at('.git'), at('.env', 'file')]);
        const { ino } = lstatSync(join(folder, '.git'));
        await new Promise(setImmediate);
        expect(lstatSync(join(folder, '.git')).ino).toBe(ino);
        expect(existsSync(join(folder, '.env'))).toBe(true);
        rounds++;
        await release();
      }
    };
    await Promise.all([...servers, ...servers].map(use));
    expect(rounds).toBe(240);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('is taken over from a dead server and removed', async () => {
    mkdirSync(join(folder, '.git'));
    chmodSync(join(folder, '.git'), PLACEHOLDER_MODES.directory);
    writeFileSync(join(folder, '.env'), '');
    chmodSync(join(folder, '.env'), PLACEHOLDER_MODES.file);
    const { release } = await server().placeholders.hold([at('.git'), at('.env', 'file')]);
    await release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('works where the file system has no locks', async () => {
    const { placeholders } = server(() => {
      throw new Error('no locks');
    });
    const { release } = await placeholders.hold([at('.git')]);
    expect(existsSync(join(folder, '.git'))).toBe(true);
    await release();
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('entries of other users are left alone', () => {
  test('an empty directory or file', async () => {
    mkdirSync(join(folder, '.git'), { mode: 0o755 });
    writeFileSync(join(folder, '.env'), '', { mode: 0o644 });
    const { placeholders, watched } = server();
    await expect(placeholders.hold([at('.git')])).rejects.toThrow(PlanOutdatedError);
    await expect(placeholders.hold([at('.env', 'file')])).rejects.toThrow(PlanOutdatedError);
    expect([mode('.git'), mode('.env')]).toEqual([0o755, 0o644]);
    expect(watched.size).toBe(0);
  });

  test.each([
    ['a link to a directory', () => symlinkSync(tmpdir(), join(folder, '.git'))],
    ['a dangling link', () => symlinkSync('nowhere', join(folder, '.git'))],
    ['a file', () => writeFileSync(join(folder, '.git'), '')],
  ])('%s instead of a directory', async (_, make) => {
    make();
    const before = lstatSync(join(folder, '.git')).ino;
    await expect(server().placeholders.hold([at('.git')])).rejects.toThrow(PlanOutdatedError);
    expect(lstatSync(join(folder, '.git')).ino).toBe(before);
  });

  test('a placeholder of the other kind', async () => {
    const first = await server().placeholders.hold([at('.git')]);
    await expect(server().placeholders.hold([at('.git', 'file')])).rejects.toThrow(PlanOutdatedError);
    await first.release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('content that was added to a placeholder, which gets an ordinary mode', async () => {
    const { release } = await server().placeholders.hold([at('.git'), at('.env', 'file')]);
    chmodSync(join(folder, '.git'), 0o755);
    writeFileSync(join(folder, '.git', 'config'), 'x');
    chmodSync(join(folder, '.git'), PLACEHOLDER_MODES.directory);
    chmodSync(join(folder, '.env'), 0o644);
    writeFileSync(join(folder, '.env'), 'SECRET=1');
    chmodSync(join(folder, '.env'), PLACEHOLDER_MODES.file);
    await release();
    expect([mode('.git'), mode('.env')]).toEqual([0o755, 0o644]);
    expect(readdirSync(join(folder, '.git'))).toEqual(['config']);
  });

  test('an entry that replaced a placeholder', async () => {
    const { release } = await server().placeholders.hold([at('.git')]);
    rmSync(join(folder, '.git'), { recursive: true });
    mkdirSync(join(folder, '.git'), { mode: 0o755 });
    await release();
    expect(mode('.git')).toBe(0o755);
  });
});

describe('a placeholder that cannot be held', () => {
  test('leaves nothing, whenever the descriptors run out', async () => {
    mkdirSync(join(folder, 'sub'));
    const { placeholders, watched } = server();
    const wanted = [at('.git'), at('.env', 'file'), at('.aws'), at('sub/.codex')];
    let held = 0;
    for (let free = 0; free < 12; free++) {
      const outcome = await withFreeDescriptors(free, () =>
        placeholders.hold(wanted).catch((error: Error) => error),
      );
      if (outcome instanceof Error) {
        expect(outcome.message).toContain('EMFILE');
      } else {
        held++;
        await outcome.release();
      }
      expect(readdirSync(folder)).toEqual(['sub']);
      expect(readdirSync(join(folder, 'sub'))).toEqual([]);
      expect(watched.size).toBe(0);
      await waitFor('every descriptor to be closed', () => openDescriptors() === descriptors);
    }
    // Six descriptors are enough: four entries and two directories.
    expect(held).toBe(6);
  });

  test('releases the others', async () => {
    mkdirSync(join(folder, 'theirs'));
    const { placeholders, watched } = server();
    await expect(placeholders.hold([at('.git'), at('theirs'), at('.aws')])).rejects.toThrow(
      PlanOutdatedError,
    );
    expect(readdirSync(folder)).toEqual(['theirs']);
    expect(watched.has(at('theirs').path)).toBe(false);
    const { release } = await placeholders.hold([at('.git')]);
    await release();
  });

  test('is in a directory that no longer exists', async () => {
    await expect(server().placeholders.hold([at('gone/.git')])).rejects.toThrow(PlanOutdatedError);
  });

  test('exceeds the share of its session, and creates nothing', async () => {
    const { placeholders } = server();
    const [greedy, other] = [{}, {}];
    const many = Array.from({ length: MAX_PLACEHOLDERS / 2 }, (_, index) => at(`p${index}`));
    const { release } = await placeholders.hold(many, greedy);
    const refused = placeholders.hold([at('p0'), at('more')], greedy);
    await expect(refused).rejects.toThrow(
      `needs a temporary entry ${folder}/more, but the server has 512 of 1024 temporary entries for sandboxes left; this session has 512 of its share of 512`,
    );
    expect(readdirSync(folder)).toHaveLength(many.length);
    // An existing placeholder can still be shared, and other sessions have a share of their own.
    const shared = await placeholders.hold([at('p0'), at('p1')], greedy);
    const others = await placeholders.hold([at('p0'), at('more')], other);
    await Promise.all([shared.release(), others.release()]);
    await release();
    expect(readdirSync(folder)).toEqual([]);
    await waitFor('all to be closed', () =>
      placeholders
        .hold(many, greedy)
        .then(({ release }) => release())
        .then(
          () => true,
          () => false,
        ),
    );
  });

  test('needs more descriptors than its session may use, and creates nothing', async () => {
    const shares = new FairShares(24, 'file descriptors (RLIMIT_NOFILE)');
    const { placeholders, watched } = server(undefined, shares);
    const session = {};
    const six = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => at(name));
    const held = await placeholders.hold(six, session);
    expect(shares.free).toBe(12);
    await expect(placeholders.hold([at('f'), at('g')], session)).rejects.toThrow(SandboxError);
    expect([readdirSync(folder).length, watched.size]).toEqual([6, 6]);
    await held.release();
    await waitFor('the descriptors to be returned', () => shares.free === 24);
    const tooMany = [...six, at('g')];
    await expect(placeholders.hold(tooMany, session)).rejects.toThrow('RLIMIT_NOFILE');
    expect([readdirSync(folder), shares.free]).toEqual([[], 24]);
  });

  test('is removed by another server again and again', async () => {
    const { placeholders } = server(() => false);
    await expect(placeholders.hold([at('.git')])).rejects.toThrow(PlanOutdatedError);
  });
});
