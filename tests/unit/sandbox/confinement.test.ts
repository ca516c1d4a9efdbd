import { afterEach, describe, expect, test, vi } from 'vitest';
import { Confinement } from '../../../src/sandbox/confinement.ts';
import { unenforceable } from '../../../src/sandbox/errors.ts';
import { SANDBOX_PROBE_WAIT_MS } from '../../../src/sandbox/limits.ts';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';

/** A sandbox of which only the check matters. What else it is asked for fails, and makes it find out why. */
function sandboxWith(attempt: Sandbox['check']): Sandbox {
  let works: boolean | null = null;
  const check = async () => {
    works = await attempt().then(
      () => true,
      () => false,
    );
    if (!works) throw unenforceable('no bwrap');
  };
  const files = () => {
    void check().catch(() => {});
    throw unenforceable('not here');
  };
  return {
    get works() {
      return works;
    },
    check,
    encloseProgram: async () => files(),
    files,
    close: async () => {},
  };
}

const WORK = async () => {};
const FAIL = () => Promise.reject(unenforceable('no bwrap'));
const READ_ONLY = { type: 'readOnly', networkAccess: false } as const;
const SPEC = {
  program: '/bin/true',
  argv: ['true'],
  cwd: '/',
  env: {},
  io: { kind: 'pipe', stdin: 'closed' },
} as const;

afterEach(() => {
  vi.useRealTimers();
});

test('what runs on behalf of a program without a network of its own gets none, and keeps the rest', async () => {
  const asked: unknown[] = [];
  const sandbox: Sandbox = {
    ...sandboxWith(WORK),
    encloseProgram: async (spec, policy, _signal, proxied = null) => {
      asked.push([policy.network, policy.disk !== 'unrestricted' && policy.disk.base, proxied]);
      return { spec, judge: null, release: null };
    },
  };
  const confinement = new Confinement(
    null,
    async () => sandbox,
    () => true,
  );
  const { signal } = new AbortController();
  const online = { type: 'readOnly', networkAccess: true } as const;
  await confinement.program(online, SPEC).enclose!(SPEC, signal);
  await confinement.withoutNetwork(online, SPEC)(SPEC, signal);
  expect(asked).toEqual([
    ['enabled', 'read', null],
    ['restricted', 'read', null],
  ]);
});

describe('whether confinements can be enforced', () => {
  test('is guessed once, and nothing is loaded for it', () => {
    const load = vi.fn(async () => sandboxWith(WORK));
    const isLikely = vi.fn(() => true);
    const confinement = new Confinement(null, load, isLikely);
    expect(isLikely).not.toHaveBeenCalled();
    expect([confinement.usable, confinement.usable]).toEqual([true, true]);
    expect(isLikely).toHaveBeenCalledTimes(1);
    expect(load).not.toHaveBeenCalled();
  });

  test.each([
    [true, async () => sandboxWith(FAIL), false],
    [false, async () => sandboxWith(WORK), true],
    [true, () => Promise.reject(unenforceable('nothing can be sandboxed here')), false],
  ])('is guessed to be %s and then found out', async (guess, load, truth) => {
    const confinement = new Confinement(null, load, () => guess);
    expect(confinement.usable).toBe(guess);
    await confinement.probe();
    expect(confinement.usable).toBe(truth);
    await confinement.close();
  });

  test('is learnt from the first request that needs it', async () => {
    const confinement = new Confinement(
      null,
      async () => sandboxWith(FAIL),
      () => true,
    );
    const { enclose } = confinement.program(READ_ONLY, SPEC);
    await expect(enclose!(SPEC, new AbortController().signal)).rejects.toThrow('not here');
    await vi.waitFor(() => expect(confinement.usable).toBe(false));
  });

  test('is found out anew after the machine has been changed', async () => {
    const check = vi.fn<Sandbox['check']>().mockRejectedValueOnce(unenforceable('no bwrap'));
    check.mockResolvedValue(undefined);
    const sandbox = sandboxWith(check);
    const confinement = new Confinement(
      null,
      async () => sandbox,
      () => true,
    );
    confinement
      .files(null)
      .of(READ_ONLY, 'write')!
      .fileSystem.canonicalize('/' as never)
      .catch(() => {});
    await vi.waitFor(() => expect(confinement.usable).toBe(false));
    await confinement.probe();
    expect(confinement.usable).toBe(true);
  });

  test('is learnt from the first request that succeeds, without a trial', async () => {
    const check = vi.fn<Sandbox['check']>();
    let works: boolean | null = null;
    const sandbox: Sandbox = {
      get works() {
        return works;
      },
      check,
      encloseProgram: async (spec) => {
        works = true;
        return { spec, judge: null, release: null };
      },
      files: () => {
        throw unenforceable('not here');
      },
      close: async () => {},
    };
    const confinement = new Confinement(
      null,
      async () => sandbox,
      () => false,
    );
    expect(confinement.usable).toBe(false);
    await confinement.program(READ_ONLY, SPEC).enclose!(SPEC, new AbortController().signal);
    expect(confinement.usable).toBe(true);
    expect(check).not.toHaveBeenCalled();
  });

  test('stays a guess where the answer does not come', async () => {
    vi.useFakeTimers();
    const confinement = new Confinement(
      null,
      async () => sandboxWith(() => new Promise(() => {})),
      () => true,
    );
    const probed = confinement.probe();
    await vi.advanceTimersByTimeAsync(SANDBOX_PROBE_WAIT_MS);
    await probed;
    expect(confinement.usable).toBe(true);
  });
});
