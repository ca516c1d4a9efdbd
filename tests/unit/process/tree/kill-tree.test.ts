import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { NodeSpawner } from '../../../../src/process/spawn/node-spawner.ts';
import type { Spawner } from '../../../../src/process/spawn/spawner.ts';
import { command, isAlive, record, shell, TERMINAL, type Transcript } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const TREE = join(import.meta.dirname, '../../../fixtures/process-tree.sh');
const libc = loadLibc();
let spawner: NativeSpawner;

beforeAll(() => {
  spawner = new NativeSpawner(libc);
});

afterAll(() => spawner.close());

interface Tree {
  readonly transcript: Transcript;
  readonly pids: Record<string, number>;
}

async function startTree(on: Spawner, mode: 'stay' | 'leave' = 'stay'): Promise<Tree> {
  const transcript = record(await on.spawn(command([TREE, mode])));
  await waitFor('the tree', () => transcript.text('stdout').includes('ready'));
  const pairs = transcript.text('stdout').matchAll(/^(\w+) (\d+)$/gm);
  const pids = Object.fromEntries([...pairs].map(([, name = '', pid]) => [name, Number(pid)]));
  expect(Object.keys(pids)).toEqual(['grandchild', 'session', 'daemon', 'leader']);
  return { transcript, pids };
}

function living({ pids }: Tree): string[] {
  return Object.keys(pids).filter((name) => isAlive(pids[name]!));
}

describe('tagged trees', () => {
  test('kills processes that ignore SIGTERM, grandchildren, other sessions and daemons', async () => {
    const tree = await startTree(spawner);
    expect(living(tree)).toEqual(['grandchild', 'session', 'daemon', 'leader']);
    await tree.transcript.child.killTree();
    expect(living(tree)).toEqual([]);
    expect(await tree.transcript.exited).toEqual({ code: null, signal: 9 });
    tree.transcript.child.release();
  });

  test('kills the rest after the program itself has been reaped', async () => {
    const tree = await startTree(spawner, 'leave');
    expect(await tree.transcript.exited).toEqual({ code: 0, signal: null });
    await waitFor('the leader to go', () => !isAlive(tree.pids.leader!));
    expect(living(tree)).toEqual(['grandchild', 'session', 'daemon']);
    await tree.transcript.child.killTree();
    expect(living(tree)).toEqual([]);
    tree.transcript.child.release();
  });

  test('kills a job of an interactive shell in its own group', async () => {
    const transcript = record(await spawner.spawn(shell('set -m; sleep 1000 & echo $!; wait', TERMINAL)));
    const pid = Number(await waitFor('a pid', () => /(\d+)\r\n/.exec(transcript.text('pty'))?.[1]));
    await transcript.child.killTree();
    expect(isAlive(pid)).toBe(false);
    transcript.child.release();
  });

  test('does not touch another tree, of this server or a second one', async () => {
    const second = new NativeSpawner(libc);
    const trees = [await startTree(spawner), await startTree(spawner), await startTree(second)];
    await trees[0]!.transcript.child.killTree();
    expect(trees.map((tree) => living(tree).length)).toEqual([0, 4, 4]);
    await second.close();
    expect(trees.map((tree) => living(tree).length)).toEqual([0, 4, 0]);
    await trees[1]!.transcript.child.killTree();
    for (const { transcript } of trees) transcript.child.release();
  });

  test('kills many trees concurrently, some of them twice', async () => {
    const trees = await Promise.all(Array.from({ length: 20 }, () => startTree(spawner)));
    const kills = [...trees, ...trees].map(({ transcript }) => transcript.child.killTree());
    await Promise.all(kills);
    expect(trees.flatMap(living)).toEqual([]);
    for (const { transcript } of trees) transcript.child.release();
  });

  test('kills what a forgotten program left behind when the spawner closes', async () => {
    const own = new NativeSpawner(libc);
    const tree = await startTree(own, 'leave');
    await tree.transcript.exited;
    tree.transcript.child.release();
    await own.close();
    expect(living(tree)).toEqual([]);
  });
});

describe('signals to the group', () => {
  test('reach the group while the program runs', async () => {
    const transcript = record(
      await spawner.spawn(shell('trap "echo caught; exit 3" INT; echo up; while :; do sleep 0.01; done')),
    );
    await waitFor('the trap', () => transcript.text('stdout') === 'up\n');
    expect(transcript.child.signalGroup(2)).toBe(true);
    expect(await transcript.exited).toEqual({ code: 3, signal: null });
    transcript.child.release();
  });

  test.each([
    ['native', () => spawner],
    ['node', () => new NodeSpawner('none')],
  ])('reach the rest of the group after the exit, then return false (%s)', async (_, spawnerOf) => {
    const used: Spawner = spawnerOf();
    const tree = await startTree(used, 'leave');
    await tree.transcript.exited;
    expect(tree.transcript.child.signalGroup(9)).toBe(true);
    await waitFor('the grandchild to die', () => !isAlive(tree.pids.grandchild!));
    expect(tree.transcript.child.signalGroup(9)).toBe(false);
    expect(living(tree)).toEqual(['session', 'daemon']);
    for (const pid of [tree.pids.session!, tree.pids.daemon!]) process.kill(pid, 'SIGKILL');
    tree.transcript.child.release();
    if (used !== spawner) await used.close();
  });
});

test('kills everything except a daemon without tags', async () => {
  const plain = new NodeSpawner('none');
  const tree = await startTree(plain);
  await tree.transcript.child.killTree();
  expect(living(tree)).toEqual(['daemon']);
  process.kill(tree.pids.daemon!, 'SIGKILL');
  expect(await tree.transcript.exited).toEqual({ code: null, signal: 9 });
  tree.transcript.child.release();
  await plain.close();
});
