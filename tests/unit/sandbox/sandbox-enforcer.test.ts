import { afterEach, describe, expect, test, vi } from 'vitest';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import { unenforceable } from '../../../src/sandbox/errors.ts';
import { SANDBOX_PROBE_WAIT_MS } from '../../../src/sandbox/limits.ts';
import { accessOf, type SandboxPolicy } from '../../../src/sandbox/policy/policy.ts';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import { SandboxEnforcer } from '../../../src/sandbox/sandbox-enforcer.ts';

/** A sandbox of which only `check` works. All other calls fail after running the check. */
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
    wrapProgram: async () => files(),
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

test('withoutNetwork removes the network from a policy and keeps the rest', async () => {
  const asked: unknown[] = [];
  const sandbox: Sandbox = {
    ...sandboxWith(WORK),
    wrapProgram: async (spec, policy, _signal, proxied = null) => {
      asked.push([policy.network, policy.disk !== 'unrestricted' && policy.disk.base, proxied]);
      return { spec, denialDetector: null, release: null };
    },
  };
  const sandboxEnforcer = new SandboxEnforcer(
    null,
    async () => sandbox,
    () => true,
  );
  const { signal } = new AbortController();
  const online = { type: 'readOnly', networkAccess: true } as const;
  await sandboxEnforcer.program(online, SPEC).wrapInSandbox!(SPEC, signal);
  await sandboxEnforcer.withoutNetwork(online, SPEC)(SPEC, signal);
  expect(asked).toEqual([
    ['enabled', 'read', null],
    ['restricted', 'read', null],
  ]);
});

test('no sandbox that restricts files shows the hidden directory', async () => {
  const policies: SandboxPolicy[] = [];
  const sandbox: Sandbox = {
    ...sandboxWith(WORK),
    wrapProgram: async (spec, policy) => {
      policies.push(policy);
      return { spec, denialDetector: null, release: null };
    },
  };
  const hidden = nativePathOfText('/tmp/private');
  const sandboxEnforcer = new SandboxEnforcer(
    null,
    async () => sandbox,
    () => true,
    hidden,
  );
  const { signal } = new AbortController();
  const writableRoots = ['file:///tmp', 'file:///tmp/private/inside'];
  const asked = { type: 'workspaceWrite', writableRoots, networkAccess: true } as const;
  const context = { ...asked, excludeSlashTmp: false, excludeTmpdirEnvVar: false };
  await sandboxEnforcer.program(context, { ...SPEC, cwd: '/tmp' }).wrapInSandbox!(SPEC, signal);
  const [{ disk }] = policies as [SandboxPolicy];
  const inside = nativePathOfText('/tmp/private/inside/file');
  const access = ['/tmp/other', '/tmp/private', inside].map((path) => accessOf(disk, nativePathOfText(path)));
  expect(access).toEqual(['write', 'deny', 'deny']);
  // Reading it is still without a sandbox where every other file can be read.
  expect(sandboxEnforcer.files(null, {} as never).of(READ_ONLY, 'read')).toBeNull();
});

describe('whether sandboxes can be enforced', () => {
  test('is guessed once, without loading the sandbox', () => {
    const load = vi.fn(async () => sandboxWith(WORK));
    const isLikely = vi.fn(() => true);
    const sandboxEnforcer = new SandboxEnforcer(null, load, isLikely);
    expect(isLikely).not.toHaveBeenCalled();
    expect([sandboxEnforcer.usable, sandboxEnforcer.usable]).toEqual([true, true]);
    expect(isLikely).toHaveBeenCalledTimes(1);
    expect(load).not.toHaveBeenCalled();
  });

  test.each([
    [true, async () => sandboxWith(FAIL), false],
    [false, async () => sandboxWith(WORK), true],
    [true, () => Promise.reject(unenforceable('nothing can be sandboxed here')), false],
  ])('is guessed to be %s and then probed', async (guess, load, truth) => {
    const sandboxEnforcer = new SandboxEnforcer(null, load, () => guess);
    expect(sandboxEnforcer.usable).toBe(guess);
    await sandboxEnforcer.probe();
    expect(sandboxEnforcer.usable).toBe(truth);
    await sandboxEnforcer.close();
  });

  test('is known after the first request that needs it', async () => {
    const sandboxEnforcer = new SandboxEnforcer(
      null,
      async () => sandboxWith(FAIL),
      () => true,
    );
    const { wrapInSandbox } = sandboxEnforcer.program(READ_ONLY, SPEC);
    await expect(wrapInSandbox!(SPEC, new AbortController().signal)).rejects.toThrow('not here');
    await vi.waitFor(() => expect(sandboxEnforcer.usable).toBe(false));
  });

  test('is probed again after the machine was changed', async () => {
    const check = vi.fn<Sandbox['check']>().mockRejectedValueOnce(unenforceable('no bwrap'));
    check.mockResolvedValue(undefined);
    const sandbox = sandboxWith(check);
    const sandboxEnforcer = new SandboxEnforcer(
      null,
      async () => sandbox,
      () => true,
    );
    sandboxEnforcer
      .files(null, {})
      .of(READ_ONLY, 'write')!
      .fileSystem.canonicalize('/' as never)
      .catch(() => {});
    await vi.waitFor(() => expect(sandboxEnforcer.usable).toBe(false));
    await sandboxEnforcer.probe();
    expect(sandboxEnforcer.usable).toBe(true);
  });

  test('is known after the first request that succeeds, without a probe', async () => {
    const check = vi.fn<Sandbox['check']>();
    let works: boolean | null = null;
    const sandbox: Sandbox = {
      get works() {
        return works;
      },
      check,
      wrapProgram: async (spec) => {
        works = true;
        return { spec, denialDetector: null, release: null };
      },
      files: () => {
        throw unenforceable('not here');
      },
      close: async () => {},
    };
    const sandboxEnforcer = new SandboxEnforcer(
      null,
      async () => sandbox,
      () => false,
    );
    expect(sandboxEnforcer.usable).toBe(false);
    await sandboxEnforcer.program(READ_ONLY, SPEC).wrapInSandbox!(SPEC, new AbortController().signal);
    expect(sandboxEnforcer.usable).toBe(true);
    expect(check).not.toHaveBeenCalled();
  });

  test('stays a guess when the probe hangs', async () => {
    vi.useFakeTimers();
    const sandboxEnforcer = new SandboxEnforcer(
      null,
      async () => sandboxWith(() => new Promise(() => {})),
      () => true,
    );
    const probed = sandboxEnforcer.probe();
    await vi.advanceTimersByTimeAsync(SANDBOX_PROBE_WAIT_MS);
    await probed;
    expect(sandboxEnforcer.usable).toBe(true);
  });
});
