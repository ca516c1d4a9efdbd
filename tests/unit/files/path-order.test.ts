import { expect, test, vi } from 'vitest';
import { PARENT_CREATION_WAIT_MS } from '../../../src/files/limits.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import { type Access, PathOrder } from '../../../src/files/path-order.ts';

/** Runs operations that end when the test says so, and records the order. */
class Script {
  readonly order = new PathOrder();
  readonly log: string[] = [];
  readonly #ends = new Map<string, () => void>();
  readonly #releases = new Map<string, () => void>();

  run(name: string, access: Access, ...paths: string[]): Promise<void> {
    const native = paths.map(nativePathOfText);
    return this.order.run(
      native,
      access,
      () => this.log.push(`${name} waits`),
      async (release) => {
        this.log.push(name);
        this.#releases.set(name, release);
        await new Promise<void>((resolve) => this.#ends.set(name, resolve));
      },
    );
  }

  async end(name: string): Promise<void> {
    this.#ends.get(name)?.();
    await settled();
  }

  async release(name: string): Promise<void> {
    this.#releases.get(name)?.();
    await settled();
  }
}

async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

test('reads of one path run concurrently, a write waits for them', async () => {
  const script = new Script();
  void script.run('r1', 'read', '/a');
  void script.run('r2', 'read', '/a');
  void script.run('w', 'write', '/a');
  expect(script.log).toEqual(['r1', 'r2', 'w waits']);
  await script.end('r1');
  expect(script.log).toHaveLength(3);
  await script.end('r2');
  expect(script.log).toEqual(['r1', 'r2', 'w waits', 'w']);
});

test.each([
  ['the same path', '/a/b', '/a/b', true],
  ['a path above', '/a/b', '/a', true],
  ['a path below', '/a', '/a/b/c', true],
  ['the root', '/', '/x', true],
  ['a sibling', '/a/b', '/a/c', false],
  ['a name with the same prefix', '/a/b', '/a/bc', false],
])('a read after a write: %s', async (_, written, read, waits) => {
  const script = new Script();
  void script.run('w', 'write', written);
  void script.run('r', 'read', read);
  expect(script.log).toEqual(waits ? ['w', 'r waits'] : ['w', 'r']);
  await script.end('w');
  expect(script.log.at(-1)).toBe('r');
});

test('an operation on two paths waits for both', async () => {
  const script = new Script();
  void script.run('w1', 'write', '/from/x');
  void script.run('w2', 'write', '/to');
  void script.run('copy', 'write', '/from', '/to');
  await script.end('w1');
  expect(script.log).not.toContain('copy');
  await script.end('w2');
  expect(script.log.at(-1)).toBe('copy');
});

test('a claim that is released early delays no other operation', async () => {
  const script = new Script();
  void script.run('fifo', 'write', '/f');
  void script.run('r', 'read', '/f');
  await script.release('fifo');
  expect(script.log).toEqual(['fifo', 'r waits', 'r']);
  expect(script.order.changesDone()).toBeNull();
});

test('a failed operation lets the next one run, and its caller receives the error', async () => {
  const order = new PathOrder();
  const path = nativePathOfText('/a');
  const failed = order.run(
    [path],
    'write',
    () => {},
    () => Promise.reject(new Error('no')),
  );
  const next = order.run(
    [path],
    'read',
    () => {},
    () => Promise.resolve('seen'),
  );
  await expect(failed).rejects.toThrow('no');
  expect(await next).toBe('seen');
});

test('changesDone waits for changes in progress', async () => {
  const script = new Script();
  expect(script.order.changesDone()).toBeNull();
  void script.run('r', 'read', '/r');
  expect(script.order.changesDone()).toBeNull();
  void script.run('w', 'write', '/w');
  let done = false;
  void script.order.changesDone()?.then(() => {
    done = true;
  });
  await settled();
  expect(done).toBe(false);
  await script.end('w');
  expect(done).toBe(true);
});

test('operations on siblings wait for created parent directories, but the creation waits for none of them', async () => {
  const script = new Script();
  void script.run('r', 'read', '/a/x');
  void script.run('m', 'make', '/a/b/c');
  void script.run('w', 'write', '/a/y');
  void script.run('other', 'write', '/z/y');
  expect(script.log).toEqual(['r', 'm', 'w waits', 'other']);
  await script.end('m');
  expect(script.log.at(-1)).toBe('w');
});

test('creations of directories with their parents run concurrently', async () => {
  const script = new Script();
  for (const name of ['1', '2', '3']) void script.run(name, 'make', `/a/${name}/b`);
  expect(script.log).toEqual(['1', '2', '3']);
  void script.run('below', 'make', '/a/1/b/c');
  void script.run('w', 'write', '/a/2/x');
  await script.end('1');
  await script.end('2');
  expect(script.log).toEqual(['1', '2', '3', 'below waits', 'w waits', 'below']);
  await script.end('3');
  await script.end('below');
  expect(script.log.at(-1)).toBe('w');
});

test('a creation of parents that hangs delays only operations at and below its path', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const script = new Script();
    void script.run('m', 'make', '/a/b/c');
    void script.run('w', 'write', '/a/y');
    void script.run('below', 'write', '/a/b/c/d');
    vi.advanceTimersByTime(PARENT_CREATION_WAIT_MS);
    await settled();
    expect(script.log).toEqual(['m', 'w waits', 'below waits', 'w']);
    void script.run('late', 'read', '/a/z');
    await settled();
    expect(script.log.at(-1)).toBe('late');
    await script.end('m');
    expect(script.log.at(-1)).toBe('below');
  } finally {
    vi.useRealTimers();
  }
});
