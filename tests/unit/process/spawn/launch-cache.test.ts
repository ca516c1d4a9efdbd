import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { LAUNCH_CACHE_ENTRIES, LAUNCH_CACHE_MS } from '../../../../src/process/limits.ts';
import { LaunchCache } from '../../../../src/process/spawn/launch-checks.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { command, run } from '../../../support/children.ts';

function cacheAt(): { cache: LaunchCache; pass(milliseconds: number): void } {
  let now = 0;
  const cache = new LaunchCache(() => now);
  return {
    cache,
    pass: (milliseconds) => {
      now += milliseconds;
    },
  };
}

describe('LaunchCache', () => {
  const spec = command(['/bin/true']);

  test('knows a checked directory and program for a short time', () => {
    const { cache, pass } = cacheAt();
    expect(cache.knows(spec)).toBe(false);
    cache.add(spec);
    pass(LAUNCH_CACHE_MS - 1);
    expect(cache.knows(spec)).toBe(true);
    expect(cache.knows({ ...spec, cwd: '/tmp' })).toBe(false);
    expect(cache.knows({ ...spec, program: '/bin/false' })).toBe(false);
    pass(1);
    expect(cache.knows(spec)).toBe(false);
  });

  test('never knows a bare name', () => {
    const { cache } = cacheAt();
    cache.add(command(['true']));
    expect(cache.knows(command(['true']))).toBe(false);
  });

  test('evicts the oldest entry when it is full', () => {
    const { cache } = cacheAt();
    for (let index = 0; index <= LAUNCH_CACHE_ENTRIES; index++) cache.add({ ...spec, cwd: `/${index}` });
    expect(cache.knows({ ...spec, cwd: '/0' })).toBe(false);
    expect(cache.knows({ ...spec, cwd: '/1' })).toBe(true);
  });
});

describe('a program that was started a moment ago', () => {
  const spawner = new NativeSpawner(loadLibc());
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'launch-'));
  });
  afterAll(async () => {
    await spawner.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test('reports the reason once it or its directory is gone, and runs again when it is back', async () => {
    const program = join(folder, 'program');
    const install = () => {
      writeFileSync(program, '#!/bin/sh\necho ran\n');
      chmodSync(program, 0o755);
    };
    install();
    const spec = { ...command([program]), cwd: folder };
    expect((await run(spawner, spec)).stdout).toBe('ran\n');
    expect((await run(spawner, spec)).stdout).toBe('ran\n');
    rmSync(program);
    await expect(spawner.spawn(spec)).rejects.toMatchObject({
      code: 'ENOENT',
      message: expect.stringContaining(program),
    });
    install();
    expect((await run(spawner, spec)).stdout).toBe('ran\n');
    chmodSync(program, 0o644);
    await expect(spawner.spawn(spec)).rejects.toMatchObject({ code: 'EACCES' });
    rmSync(folder, { recursive: true });
    await expect(spawner.spawn(spec)).rejects.toMatchObject({
      code: 'ENOENT',
      message: `cwd ${folder} does not exist`,
    });
  });

  test('is not started with a NUL in its arguments', async () => {
    const spec = command(['/bin/true']);
    await run(spawner, spec);
    await expect(spawner.spawn({ ...spec, argv: ['true', 'a\0b'] })).rejects.toMatchObject({
      code: 'EINVAL',
    });
  });
});
