import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { ControlGroups } from '../../../../src/process/resources/control-groups.ts';
import { NO_RESOURCE_LIMITS, SessionLimits } from '../../../../src/process/resources/resource-limits.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { Child, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { readProcess } from '../../../../src/process/tree/process-table.ts';
import { INPUT, record, shell } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

/** A cgroup v2 hierarchy in which this user may create groups; it may have no controllers. */
const HIERARCHY = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find(canMakeGroups) ?? null;

function canMakeGroups(path: string): boolean {
  try {
    if (!statSync(join(path, 'cgroup.procs')).isFile()) return false;
    rmdirSync(mkdtempSync(join(path, 'exec-server-test-')));
    return true;
  } catch {
    return false;
  }
}

describe.skipIf(HIERARCHY === null)(
  'in the real cgroup file system (skipped where no group can be created)',
  () => {
    let home: string;
    let spawner: NativeSpawner;
    let session: SessionLimits;

    beforeEach(() => {
      home = mkdtempSync(join(HIERARCHY ?? '', 'exec-server-test-'));
      const groups = new ControlGroups(home);
      spawner = new NativeSpawner(loadLibc(), () => groups);
      session = new SessionLimits(NO_RESOURCE_LIMITS);
    });
    afterEach(async () => {
      await spawner.close();
      // Only an empty group can be removed, so nothing is left behind.
      rmdirSync(home);
    });

    const subgroups = (path: string) =>
      readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
        entry.isDirectory() ? [entry.name] : [],
      );
    const groupOf = (pid: number) => /^0::(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8'))?.[1];
    const sessionName = () => `exec-server-${process.pid}-s1`;

    async function start(script: string, more: Partial<SpawnSpec> = {}): Promise<Child> {
      return spawner.spawn({ ...shell(script, INPUT), sessionLimits: session, ...more });
    }

    async function end(child: Child): Promise<void> {
      const recording = record(child);
      await child.killTree();
      await recording;
      child.release();
    }

    test('puts the programs of a session and their children into groups inside the session group', async () => {
      const first = await start('sleep 1000 & read go');
      const second = await start('read go');
      const place = (name: string) => expect.stringMatching(new RegExp(`/${sessionName()}/${name}$`));
      expect(groupOf(first.pid)).toEqual(place('1'));
      expect(groupOf(second.pid)).toEqual(place('2'));
      const members = () =>
        readFileSync(join(home, sessionName(), '1', 'cgroup.procs'), 'utf8')
          .trim()
          .split('\n');
      await waitFor('what the first one started', () => members().length === 2);
      await Promise.all([end(first), end(second)]);
      await waitFor('the end of their groups', () => subgroups(join(home, sessionName())).length === 0);
      // The session may start another program.
      const third = await start('read go');
      expect(groupOf(third.pid)).toEqual(place('3'));
      await end(third);
      session.close();
      await waitFor('the end of its group', () => subgroups(home).length === 0);
    });

    test('keeps the group of a session until the server ends while a program is left running', async () => {
      const child = await start('setsid sh -c "exec sleep 1000 <&- >&- 2>&-" & read go');
      const recording = record(child);
      const daemon = await waitFor('the daemon', () => {
        const pids = readFileSync(join(home, sessionName(), '1', 'cgroup.procs'), 'utf8')
          .trim()
          .split('\n');
        return pids.map(Number).find((pid) => pid !== child.pid && readProcess(pid)?.session === pid);
      });
      child.stdin?.write(Buffer.from('go\n'), () => {});
      await recording;
      child.release();
      session.close();
      expect(groupOf(daemon as number)).toMatch(/-s1\/1$/);
      await spawner.close();
      expect(subgroups(home)).toEqual([]);
      expect(readProcess(daemon as number)).toBeNull();
    });

    test('removes groups of a dead server, except those with members', async () => {
      const dead = join(home, 'exec-server-2147480000');
      for (const path of [dead, `${dead}-s1`, join(`${dead}-s1`, '1'), `${dead}-2`]) mkdirSync(path);
      const survivor = spawn('sleep', ['1000']);
      const survived = once(survivor, 'exit');
      writeFileSync(join(`${dead}-2`, 'cgroup.procs'), String(survivor.pid));
      try {
        const child = await start('read go');
        expect(subgroups(home).sort()).toEqual([sessionName(), 'exec-server-2147480000-2'].sort());
        await end(child);
        session.close();
      } finally {
        survivor.kill('SIGKILL');
        await survived;
        await waitFor(
          'the group to be empty',
          () => readFileSync(join(`${dead}-2`, 'cgroup.procs'), 'utf8') === '',
        );
        rmdirSync(`${dead}-2`);
      }
    });

    test('keeps the groups of two servers in one process apart', async () => {
      await end(await start('read go'));
      const other = new ControlGroups(home);
      other.create(NO_RESOURCE_LIMITS);
      await waitFor('the end of the first program', () => subgroups(join(home, sessionName())).length === 0);
      await end(await start('read go'));
      session.close();
      await other.close();
    });
  },
);
