import { expect, test, vi } from 'vitest';
import type { StartRequest } from '../../../../src/process/process-manager.ts';
import { NO_RESOURCE_LIMITS, SessionLimits } from '../../../../src/process/resources/resource-limits.ts';
import type { LoginPlace } from '../../../../src/process/shell-state/shell-states.ts';
import type { SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import type { SandboxContext } from '../../../../src/protocol/sandbox.ts';
import type { Sandbox } from '../../../../src/sandbox/sandbox.ts';
import { SandboxEnforcer } from '../../../../src/sandbox/sandbox-enforcer.ts';
import type { HandlerServices } from '../../../../src/server/handlers/services.ts';
import { type CheckedStart, startProcess } from '../../../../src/server/handlers/start-process.ts';

const ONLINE: SandboxContext = { type: 'readOnly', networkAccess: true };
const SPEC: SpawnSpec = {
  program: '/bin/sh',
  argv: ['/bin/sh', '-lc', 'true'],
  cwd: '/',
  env: { HTTP_PROXY: 'http://127.0.0.1:9' },
  io: { kind: 'pipe', stdin: 'closed' },
};
const LOGIN = {} as NonNullable<CheckedStart['login']>;

/** The services of a connection whose starts go as far as their sandbox. `sandboxed` hears what that is. */
function scene(limits: SessionLimits | null = null) {
  const sandboxed: string[] = [];
  const specs: SpawnSpec[] = [];
  const sandbox: Sandbox = {
    works: null,
    check: async () => {},
    wrapProgram: async (spec, policy, _signal, proxied = null) => {
      sandboxed.push(`${spec.program} ${proxied === null ? policy.network : 'proxied'}`);
      return { spec, denialDetector: null, release: null };
    },
    files: () => {
      throw new TypeError('nobody asks for files');
    },
    close: async () => {},
  };
  const { signal } = new AbortController();
  const left = vi.fn();
  const services = {
    session: {
      limits,
      lifecycleNotifications: false,
      policyQuestions: {},
      policyDecisions: { end: () => {} },
      processes: {
        start: async ({ wrapInSandbox, spec }: StartRequest) => {
          specs.push(spec);
          await wrapInSandbox?.(spec, signal);
          throw new Error('far enough');
        },
      },
      shellStates: {
        restored: async (_login: unknown, { wrapInSandbox, spec }: LoginPlace) => {
          await wrapInSandbox?.({ ...spec, program: 'login shell' }, signal);
          return spec;
        },
      },
    },
    config: { retainedOutputBytesPerProcess: 1, retainedChunksPerProcess: 1, snapshotHeadBytes: 0 },
    connection: { notify: () => {} },
    files: { changesDone: () => null },
    quotas: { enterProcess: () => left },
    records: {
      watch: (_id: string, listener: unknown) => listener,
      starting: () => null,
    },
    sandboxEnforcer: new SandboxEnforcer(
      null,
      async () => sandbox,
      () => true,
    ),
    proxies: { serverPorts: new Set() },
    log: { warn: () => {} },
  } as unknown as HandlerServices;
  const start = (more: Partial<CheckedStart>) =>
    startProcess(services, { processId: 'p', spec: SPEC, dialect: 'process', ...more });
  return { start, sandboxed, left, specs };
}

test.each<[string, Partial<CheckedStart>, string[]]>([
  ['as it is', {}, []],
  ['under a sandbox', { sandbox: ONLINE }, ['/bin/sh enabled']],
  [
    'with the state of its login shell',
    { sandbox: ONLINE, login: LOGIN },
    ['login shell enabled', '/bin/sh enabled'],
  ],
  ['behind a proxy', { sandbox: ONLINE, enforceManagedNetwork: true }, ['/bin/sh proxied']],
  [
    'behind a proxy that its login shell cannot go around',
    { sandbox: ONLINE, login: LOGIN, enforceManagedNetwork: true },
    ['login shell restricted', '/bin/sh proxied'],
  ],
])('a program runs %s', async (_how, more, told) => {
  const { start, sandboxed, left } = scene();
  await expect(start(more)).rejects.toThrow('far enough');
  expect(sandboxed).toEqual(told);
  expect(left).toHaveBeenCalled();
});

test.each([null, new SessionLimits({ ...NO_RESOURCE_LIMITS, pids: 5 })])(
  'a program counts among those of its session (limits: %j)',
  async (limits) => {
    const { start, specs } = scene(limits);
    await expect(start({})).rejects.toThrow('far enough');
    expect(specs.map(({ sessionLimits }) => sessionLimits)).toEqual([limits]);
  },
);
