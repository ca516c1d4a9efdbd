import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { FileSystem } from '../../../../src/files/file-system.ts';
import type { NativePath } from '../../../../src/files/native-path.ts';
import { NodeSpawner } from '../../../../src/process/spawn/node-spawner.ts';
import { unenforceable } from '../../../../src/sandbox/errors.ts';
import { HELPER_START_ATTEMPTS, MAX_WAITING_STARTS } from '../../../../src/sandbox/files/limits.ts';
import { Bwrap } from '../../../../src/sandbox/linux/bwrap.ts';
import { childrenOf, isAlive, memoryOf } from '../../../support/machine.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { outcome } from '../../files/local/scratch.ts';
import {
  contentOf,
  FOLLOW,
  HelperFixture,
  READ_ALL,
  WRITE_WORKSPACE,
  waitingForever,
} from './helper-fixture.ts';

const MEGABYTE = 1024 * 1024;

describe('the helper', () => {
  const fixture = new HelperFixture();
  const { at, entry } = fixture;

  const write = (files: FileSystem, path: NativePath, bytes = Buffer.from('x')) =>
    files.writeFile(path, bytes, FOLLOW, waitingForever());

  /** The Node process in the sandbox: bwrap's child's child. */
  const inside = (bwrap: number) => childrenOf(bwrap).flatMap(childrenOf)[0]!;

  /** Files of one pool under different policies with the same effect in these tests. */
  const filesUnder = (pool: ReturnType<HelperFixture['pool']>, name: string, owner?: object) => {
    mkdirSync(at(`ws/${name}`), { recursive: true });
    return pool.files(fixture.policy(READ_ALL, entry(`ws/${name}`, 'write')), owner).fileSystem;
  };

  test('is started once for concurrent operations', async () => {
    const pool = fixture.pool();
    const policy = fixture.policy(READ_ALL, WRITE_WORKSPACE);
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => write(pool.files(policy).fileSystem, at(`ws/${index}`))),
    );
    await write(pool.files({ ...policy, network: 'enabled' }).fileSystem, at('ws/last'));
    expect(pool.pids).toHaveLength(1);
    expect(readdirSync(at('ws'))).toHaveLength(21);
  });

  test('performs five hundred concurrent operations', async () => {
    const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
    const names = Array.from({ length: 500 }, (_, index) => at(`ws/${index}`));
    await Promise.all(names.map((name, index) => write(files, name, Buffer.from(String(index)))));
    const contents = await Promise.all(names.map((name) => contentOf(files, name)));
    expect(contents.map(String)).toEqual(names.map((_, index) => String(index)));
  });

  test('uses little memory for large files', async () => {
    const pool = fixture.pool();
    const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
    const bytes = Buffer.alloc(64 * MEGABYTE, 'abcdefg');
    await write(files, at('ws/small'));
    const helper = inside(pool.pids[0]!);
    const before = memoryOf(helper, 'VmHWM');
    await write(files, at('ws/big'), bytes);
    const written = memoryOf(helper, 'VmHWM');
    expect(readFileSync(at('ws/big')).equals(bytes)).toBe(true);
    const content = await files.readFile(at('ws/big'), FOLLOW);
    const block = Buffer.alloc(MEGABYTE);
    let total = 0;
    for (let length = MEGABYTE; length === MEGABYTE; total += length) {
      length = await content.read(block);
      expect(block.subarray(0, length).equals(bytes.subarray(total, total + length))).toBe(true);
    }
    await content.close();
    expect(total).toBe(bytes.length);
    expect(written - before).toBeLessThan(90 * MEGABYTE);
    expect(memoryOf(helper, 'VmHWM') - written).toBeLessThan(10 * MEGABYTE);
  });

  test('that is killed fails the operations in progress, and the next operation gets another one', async () => {
    const pool = fixture.pool();
    const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
    writeFileSync(at('ws/big'), Buffer.alloc(MEGABYTE));
    const [file, content, written] = await Promise.all([
      files.open(at('ws/big'), 'read'),
      files.readFile(at('ws/big'), FOLLOW),
      files.open(at('ws/a'), 'replace'),
    ]);
    const [first] = pool.pids;
    const hanging = Array.from({ length: 50 }, (_, index) =>
      outcome(written.write(index * MEGABYTE, Buffer.alloc(MEGABYTE))),
    );
    process.kill(inside(first!), 'SIGKILL');
    const failures = (await Promise.all(hanging)).filter((said) => said !== 'done');
    expect(failures.length).toBeGreaterThan(0);
    for (const said of failures) expect(said).toMatch(/^failed: fs sandbox helper /);
    expect(await outcome(file.read(0, 1))).toBe(
      'failed: fs sandbox helper failed with status exit status: 137',
    );
    expect(await outcome(content.read(Buffer.alloc(MEGABYTE)))).toMatch(/^failed: fs sandbox helper /);
    expect(await outcome(file.close())).toMatch(/^failed: fs sandbox helper /);
    await Promise.all([file.discard(), written.discard()]);
    await content.close().catch(() => {});
    await write(files, at('ws/b'));
    expect(pool.pids).not.toContain(first);
    await waitFor('the first to be gone', () => !isAlive(first!));
  });

  test('ends on close, and operations in progress fail', async () => {
    const pool = fixture.pool();
    const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
    const file = await files.open(at('ws/a'), 'replace');
    const [bwrap] = pool.pids;
    const node = inside(bwrap!);
    await pool.close();
    expect([bwrap!, node].filter(isAlive)).toEqual([]);
    expect(pool.pids).toEqual([]);
    expect(await outcome(file.write(0, Buffer.from('x')))).toMatch(/^failed: fs sandbox helper /);
    expect(await outcome(write(files, at('ws/b')))).toBe(
      'failed: fs sandbox helper failed: the server is shutting down',
    );
    expect(existsSync(at('ws/b'))).toBe(false);
  });

  test('ends after it was idle for a while', async () => {
    const pool = fixture.pool({ idleMs: 50 });
    const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
    await write(files, at('ws/a'));
    const [first] = pool.pids;
    await waitFor('the helper to be ended', () => pool.pids.length === 0);
    expect(isAlive(first!)).toBe(false);
    await write(files, at('ws/b'));
    expect(pool.pids).not.toContain(first);
  });

  test('that holds an open file is not idle', async () => {
    const pool = fixture.pool({ idleMs: 1 });
    const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
    const file = await files.open(at('ws/a'), 'replace');
    const [first] = pool.pids;
    for (let round = 0; round < 5; round++) {
      await write(files, at('ws/b'));
      expect(pool.pids).toEqual([first]);
    }
    await file.close();
    await waitFor('the helper to be ended', () => pool.pids.length === 0);
  });

  test('is ended for another policy while it is idle', async () => {
    const pool = fixture.pool({ maxHelpers: 2 });
    const [a, b, c] = [filesUnder(pool, 'a'), filesUnder(pool, 'b'), filesUnder(pool, 'c')];
    await write(a, at('ws/a/x'));
    const [first] = pool.pids;
    await write(b, at('ws/b/x'));
    const [, second] = pool.pids;
    await write(a, at('ws/a/y'));
    await write(c, at('ws/c/x'));
    expect(pool.pids).toContain(first);
    expect(pool.pids).not.toContain(second);
    expect(pool.pids).toHaveLength(2);
  });

  test('is waited for, up to a limit, while all are busy', async () => {
    const pool = fixture.pool({ maxHelpers: 1, waitMs: 100 });
    const [a, b] = [filesUnder(pool, 'a'), filesUnder(pool, 'b')];
    const file = await a.open(at('ws/a/x'), 'replace');
    expect(await outcome(write(b, at('ws/b/x')))).toBe(
      'failed: fs sandbox helper failed: the server has 0 of 1 helpers for sandboxed files left; ' +
        'this session has 0 of its share of 0 (half of what other sessions leave) and needs 1 more; ' +
        'close files that are open under other sandbox policies or try again later',
    );
    await file.close();
    await write(b, at('ws/b/x'));
  });

  test('is not taken from other sessions by one with open files under many policies', async () => {
    const pool = fixture.pool({ maxHelpers: 4, waitMs: 100 });
    const [greedy, other] = [{}, {}];
    const open = (name: string, owner: object) =>
      filesUnder(pool, name, owner).open(at(`ws/${name}/x`), 'replace');
    const files = [await open('a', greedy), await open('b', greedy)];
    await expect(open('c', greedy)).rejects.toThrow('this session has 2 of its share of 2');
    // A helper that is in use can be shared, also beyond the share.
    files.push(await open('a', greedy));
    files.push(await open('c', other));
    files.push(await open('c', greedy));
    await write(filesUnder(pool, 'a', other), at('ws/a/y'));
    await Promise.all(files.map((file) => file.close()));
    await write(filesUnder(pool, 'd', greedy), at('ws/d/x'));
  });

  test('is not denied to a session because another one waits for it under the same policy', async () => {
    const pool = fixture.pool({ maxHelpers: 2 });
    const [greedy, other] = [{}, {}];
    const file = await filesUnder(pool, 'a', greedy).open(at('ws/a/x'), 'replace');
    const waiting = outcome(write(filesUnder(pool, 'b', greedy), at('ws/b/x')));
    await write(filesUnder(pool, 'b', other), at('ws/b/y'));
    await file.close();
    expect(await waiting).toBe('done');
  });

  test('counts for its session also when it is replaced because its files have changed', async () => {
    const pool = fixture.pool({ maxHelpers: 2, waitMs: 100 });
    const session = {};
    const files = filesUnder(pool, 'a', session);
    const file = await files.open(at('ws/a/x'), 'replace');
    renameSync(at('ws/a'), at('ws/moved'));
    mkdirSync(at('ws/a'));
    await expect(write(files, at('ws/a/y'))).rejects.toThrow('this session has 1 of its share of 1');
    await write(filesUnder(pool, 'b', {}), at('ws/b/x'));
    await file.discard();
    await write(files, at('ws/a/y'));
  });

  test('is ended for a waiting policy when its last user releases it', async () => {
    const pool = fixture.pool({ maxHelpers: 1 });
    const [a, b] = [filesUnder(pool, 'a'), filesUnder(pool, 'b')];
    const file = await a.open(at('ws/a/x'), 'replace');
    const waiting = write(b, at('ws/b/x'));
    await file.write(0, Buffer.from('done'));
    await file.close();
    await waiting;
    expect(readFileSync(at('ws/a/x'), 'utf8')).toBe('done');
    expect(pool.pids).toHaveLength(1);
  });

  test('gets only PATH and the temporary directories from the environment of the server', async () => {
    const env = { PATH: '/bin', TMPDIR: '/var/tmp', SECRET: 'x' };
    const pool = fixture.pool({ env });
    const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
    await write(files, at('ws/a'));
    const variables = readFileSync(`/proc/${inside(pool.pids[0]!)}/environ`, 'utf8')
      .split('\0')
      .sort();
    expect(variables.filter((variable) => variable !== '')).toEqual(['PATH=/bin', 'TMPDIR=/var/tmp']);
  });

  test('has its own network namespace and a seccomp filter', async () => {
    const pool = fixture.pool();
    await write(pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem, at('ws/a'));
    const helper = inside(pool.pids[0]!);
    const status = readFileSync(`/proc/${helper}/status`, 'latin1');
    expect(status).toMatch(/^Seccomp:\t2$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(readFileSync(`/proc/${helper}/net/dev`, 'latin1').split('\n').slice(2, -1)).toHaveLength(1);
  });

  describe('that cannot be started', () => {
    test('fails the operation with the reason', async () => {
      const absent = () => Promise.reject(unenforceable('bwrap was not found; install bubblewrap'));
      const pool = fixture.pool({ bwrap: { path: absent, trustedPath: absent, markWorking: () => {} } });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toBe(
        'failed: fs sandbox helper failed: bwrap was not found; install bubblewrap',
      );
      expect(existsSync(at('ws/a'))).toBe(false);
    });

    test('because its program is missing: reports its path', async () => {
      const program = { ...fixture.program, main: '/nowhere/file-helper.cjs' };
      const files = fixture.pool({ program }).files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toMatch(
        /^failed: fs sandbox helper failed: .*cannot be read: \/nowhere\/file-helper.cjs \(ENOENT\); set helperDirectory/,
      );
    });

    test('because its program is broken: reports its stderr', async () => {
      writeFileSync(at('broken.cjs'), 'throw new Error("not today");');
      const program = { ...fixture.program, main: at('broken.cjs') };
      const pool = fixture.pool({ program, maxHelpers: 1, waitMs: 5_000 });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      for (let attempt = 0; attempt < 3; attempt++) {
        expect(await outcome(write(files, at('ws/a')))).toMatch(/exit status: 1: .*not today/s);
      }
      expect(pool.pids).toEqual([]);
    });

    test('in time is killed', async () => {
      writeFileSync(at('mute.cjs'), 'setInterval(() => {}, 1000);');
      const program = { ...fixture.program, main: at('mute.cjs') };
      const pool = fixture.pool({ program, startMs: 200 });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toBe(
        'failed: fs sandbox helper failed: it did not answer in time',
      );
      expect(childrenOf(process.pid).filter((pid) => commandOf(pid) === 'bwrap')).toEqual([]);
    });

    test('because the files to protect keep changing', async () => {
      let moves = 0;
      const bwrap = new Bwrap(fixture.spawner, process.env.PATH ?? '', process.arch as 'x64' | 'arm64');
      const restless = {
        path: () => bwrap.path(),
        markWorking: () => {},
        trustedPath: () => {
          renameSync(at('ws'), at(`moved-${++moves}`));
          mkdirSync(at('ws'));
          return bwrap.trustedPath();
        },
      };
      const pool = fixture.pool({ bwrap: restless });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toBe(
        'failed: fs sandbox helper failed: the files to protect keep changing',
      );
      // It is also looked up while the first plan is made.
      expect(moves).toBe(1 + HELPER_START_ATTEMPTS);
      await waitFor('all helpers to be ended', () => pool.pids.length === 0);
    });

    test('because too many starts are waiting', async () => {
      const pool = fixture.pool({ maxHelpers: 1 });
      const file = await filesUnder(pool, 'busy').open(at('ws/busy/x'), 'replace');
      const starts = Array.from({ length: MAX_WAITING_STARTS + 1 }, (_, index) =>
        outcome(write(filesUnder(pool, String(index)), at(`ws/${index}/x`))),
      );
      expect(await Promise.race(starts)).toMatch(/0 of 1 helpers for sandboxed files left/);
      await pool.close();
      expect(await outcome(file.close())).toMatch(/^failed/);
      const shutDown = 'failed: fs sandbox helper failed: the server is shutting down';
      expect((await Promise.all(starts)).filter((said) => said === shutDown)).toHaveLength(
        MAX_WAITING_STARTS,
      );
    });

    test('because its runtime directory cannot be created', async () => {
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE, entry('/dev', 'deny'));
      expect(await outcome(write(files, at('ws/a')))).toMatch(/^failed: fs sandbox helper failed/);
      expect(existsSync(at('ws/a'))).toBe(false);
    });

    test('because sandboxed programs could replace bwrap', async () => {
      const files = fixture.files(READ_ALL, entry('/usr', 'write'));
      expect(await outcome(write(files, at('ws/a')))).toMatch(/make bwrap itself .* writable/);
    });

    test('because bwrap has exited, even if a process that it started is left', async () => {
      writeFileSync(at('bwrap'), '#!/bin/sh\nsleep 60 &\nexit 1\n', { mode: 0o755 });
      const killed = async () => at('bwrap');
      const pool = fixture.pool({ bwrap: { path: killed, trustedPath: killed, markWorking: () => {} } });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toBe(
        'failed: fs sandbox helper failed with status exit status: 1',
      );
    });

    test('because the executable is not bwrap', async () => {
      const none = async () => '/bin/false';
      const pool = fixture.pool({ bwrap: { path: none, trustedPath: none, markWorking: () => {} } });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toBe(
        'failed: fs sandbox helper failed with status exit status: 1',
      );
    });

    test('because bwrap does not work: reports the fix', async () => {
      const path = () => Promise.reject(unenforceable('bwrap does not work here; allow user namespaces'));
      const pool = fixture.pool({
        bwrap: { path, trustedPath: async () => '/bin/false', markWorking: () => {} },
      });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toBe(
        'failed: fs sandbox helper failed: bwrap does not work here; allow user namespaces',
      );
    });

    test('because the spawner cannot pass descriptors', async () => {
      const spawner = new NodeSpawner('no terminals');
      const pool = fixture.pool({ spawner });
      const files = pool.files(fixture.policy(READ_ALL, WRITE_WORKSPACE)).fileSystem;
      expect(await outcome(write(files, at('ws/a')))).toMatch(/^failed: fs sandbox helper failed/);
      expect(existsSync(at('ws/a'))).toBe(false);
      await spawner.close();
    });
  });
});

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
}
