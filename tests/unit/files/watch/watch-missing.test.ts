import { writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Semaphore } from '../../../../src/base/semaphore.ts';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import {
  type WatchEventListener,
  WatchEventQueue,
  type WatchEventSource,
} from '../../../../src/files/watch/event-queue.ts';
import { MissingWatch } from '../../../../src/files/watch/watch-missing.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { inotifyWatches, LossyQueue } from './watched-copy.ts';

let base: string;
let watch: MissingWatch;
let other: MissingWatch;
let fired: number[];
/** The id of the last watch of `other`. A watch ends the previous one only if its id is higher. */
let lastOther = 0;

beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'watch-missing-')));
  watch = new MissingWatch(new Semaphore(8));
  other = new MissingWatch(new Semaphore(8));
  fired = [];
});

afterEach(async () => {
  watch.dispose();
  other.dispose();
  await rm(base, { recursive: true, force: true });
});

const at = (name: string) => nativePathOfText(join(base, name));

function arm(watchId: number, missing: string[], present: string | null = null): Promise<boolean> {
  const present_ = present === null ? null : at(present);
  return watch.arm(watchId, missing.map(at), present_, () => fired.push(watchId));
}

async function firedOnce(watchId: number): Promise<void> {
  await waitFor(`watch ${watchId} to fire`, () => fired.length > 0);
  await eventsPassed();
  expect(fired).toEqual([watchId]);
}

/** Resolves when another watch of the same queue has received an event after all earlier ones. */
async function eventsPassed(): Promise<void> {
  let passed = false;
  const watchId = ++lastOther;
  const name = `passed-${watchId}`;
  await other.arm(watchId, [at(name)], null, () => {
    passed = true;
  });
  await writeFile(at(name), '');
  await waitFor('the event', () => passed);
}

describe('MissingWatch fires once', () => {
  test('when a listed path appears', async () => {
    expect(await arm(1, ['a', 'b'])).toBe(true);
    await writeFile(at('b'), '');
    await writeFile(at('a'), '');
    await firedOnce(1);
  });

  test('when a missing ancestor appears', async () => {
    expect(await arm(1, ['p/q/r'])).toBe(true);
    await mkdir(at('p'));
    await firedOnce(1);
  });

  test('when the present path disappears', async () => {
    await writeFile(at('there'), '');
    expect(await arm(1, ['a'], 'there')).toBe(true);
    await rm(at('there'));
    await firedOnce(1);
  });

  test('when an ancestor is moved away', async () => {
    await mkdir(at('p/q'), { recursive: true });
    expect(await arm(1, ['p/q/r'])).toBe(true);
    await rename(at('p'), at('elsewhere'));
    await firedOnce(1);
  });

  test('when a path appears after its check and before the watch is active', async () => {
    await mkdir(at('p'));
    const queue = new HookedQueue(at('p'), () => writeFileSync(at('a'), ''));
    const hooked = new MissingWatch(new Semaphore(8), () => Promise.resolve(queue));
    expect(await hooked.arm(1, [at('a'), at('p/b')], null, () => fired.push(1))).toBe(true);
    expect(fired).toEqual([]);
    await firedOnce(1);
  });

  test('when events may have been lost', async () => {
    const queue = new LossyQueue();
    const deaf = new MissingWatch(new Semaphore(8), () => Promise.resolve(queue));
    expect(await deaf.arm(1, [at('a')], null, () => fired.push(1))).toBe(true);
    queue.confess();
    queue.confess();
    expect(fired).toEqual([1]);
  });
});

test('does not fire for siblings of the paths', async () => {
  await mkdir(at('p'));
  expect(await arm(1, ['p/a'], 'p')).toBe(true);
  await writeFile(at('p/ab'), '');
  await writeFile(at('b'), '');
  await rm(at('p/ab'));
  await eventsPassed();
  expect(fired).toEqual([]);
  await writeFile(at('p/a'), '');
  await firedOnce(1);
});

describe('watch generations', () => {
  test('a higher one ends the previous watch', async () => {
    await arm(60, ['x1']);
    expect(await arm(61, ['x2'])).toBe(true);
    await writeFile(at('x1'), '');
    await eventsPassed();
    expect(fired).toEqual([]);
    await writeFile(at('x2'), '');
    await firedOnce(61);
    expect(await arm(58, ['x3'])).toBe(false);
  });

  test('a higher one ends the previous watch even if it is rejected', async () => {
    await arm(1, ['a']);
    expect(await arm(2, [])).toBe(false);
    await writeFile(at('a'), '');
    await eventsPassed();
    expect(fired).toEqual([]);
    expect(await arm(2, ['b'])).toBe(false);
  });

  test.each([0, 5, 4])('%s, not higher than 5, changes nothing', async (watchId) => {
    await arm(5, ['a']);
    expect(await arm(watchId, ['b'])).toBe(false);
    await writeFile(at('a'), '');
    await firedOnce(5);
  });

  test('0 is never accepted', async () => {
    expect(await arm(0, ['a'])).toBe(false);
  });

  test('the later of two concurrent ones wins', async () => {
    expect(await Promise.all([arm(1, ['a']), arm(2, ['b'])])).toEqual([false, true]);
    await writeFile(at('a'), '');
    await writeFile(at('b'), '');
    await firedOnce(2);
  });
});

describe('MissingWatch rejects', () => {
  test('a path that is not of this host', async () => {
    expect(await watch.arm(1, null, null, () => {})).toBe(false);
  });

  test.each([
    ['nothing', [], null],
    ['a path that exists', ['a', 'file'], null],
    ['the root', ['../../../../../../../..'], null],
    ['a dangling link', ['dangling'], null],
    ['a path through a link', ['link/a'], null],
    ['a path below a file', ['file/a'], null],
    ['a name too long to exist', ['a'.repeat(300)], null],
    ['a present path that is missing', ['a'], 'b'],
    ['a present path that is a link', ['a'], 'link'],
    ['more than 64 paths', Array.from({ length: 65 }, (_, i) => `${i}`), null],
    ['paths in more than 64 directories', Array.from({ length: 64 }, (_, i) => `many/${i}/a`), null],
  ])('%s', async (_, missing, present) => {
    await mkdir(at('folder'));
    await writeFile(at('file'), '');
    await symlink('folder', at('link'));
    await symlink('nowhere', at('dangling'));
    for (let i = 0; i < 64; i++) await mkdir(at(`many/${i}`), { recursive: true });
    const before = await inotifyWatches();
    expect(await arm(1, missing, present)).toBe(false);
    await waitFor('the watches to go', async () => (await inotifyWatches()) === before);
  });

  test('watches after dispose', async () => {
    await arm(1, ['a']);
    watch.dispose();
    await writeFile(at('a'), '');
    await eventsPassed();
    expect(fired).toEqual([]);
    expect(await arm(2, ['b'])).toBe(false);
  });
});

/** Calls a hook when a certain directory starts to be watched. */
class HookedQueue extends WatchEventQueue {
  readonly #path: NativePath;
  readonly #hook: () => void;

  constructor(path: NativePath, hook: () => void) {
    super(1_000_000);
    this.#path = path;
    this.#hook = hook;
  }

  override open(path: NativePath, listener: WatchEventListener): WatchEventSource {
    if (path === this.#path) this.#hook();
    return super.open(path, listener);
  }
}

test('watches 64 paths', async () => {
  expect(
    await arm(
      1,
      Array.from({ length: 64 }, (_, i) => `${i}`),
    ),
  ).toBe(true);
});
