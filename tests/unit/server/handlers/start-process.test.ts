import { describe, expect, test, vi } from 'vitest';
import type { StartRequest } from '../../../../src/process/process-manager.ts';
import { NO_RESOURCE_LIMITS, SessionLimits } from '../../../../src/process/resources/resource-limits.ts';
import type { LoginContext } from '../../../../src/process/shell-state/shell-states.ts';
import type { SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import type { SandboxContext } from '../../../../src/protocol/sandbox.ts';
import type { Sandbox } from '../../../../src/sandbox/sandbox.ts';
import { SandboxEnforcer } from '../../../../src/sandbox/sandbox-enforcer.ts';
import type { HandlerServices } from '../../../../src/server/handlers/services.ts';
import { startProcess, withTrustBundle } from '../../../../src/server/handlers/start-process.ts';
import type { CheckedStart } from '../../../../src/server/handlers/start-request.ts';
import { uri } from '../../../support/escape-fixture.ts';
import { settings } from '../../network/proxy/proxy-fixture.ts';

const ONLINE: SandboxContext = { type: 'readOnly', networkAccess: true };
const SPEC: SpawnSpec = {
  program: '/bin/sh',
  argv: ['/bin/sh', '-lc', 'true'],
  cwd: '/',
  env: { HTTP_PROXY: 'http://127.0.0.1:9' },
  io: { kind: 'pipe', stdin: 'closed' },
};
const LOGIN = {} as NonNullable<CheckedStart['login']>;
const START: CheckedStart = {
  processId: 'p',
  spec: SPEC,
  dialect: 'process',
  outputBytesCap: null,
  name: null,
  lifetime: { type: 'session' },
  windowBytes: null,
  holdOutput: false,
  record: null,
  limits: null,
  sandbox: null,
  networkProxy: null,
  enforceManagedNetwork: false,
  login: null,
};

/** The services of a connection whose starts fail once the sandbox is built. `sandboxed` lists what was sandboxed. */
function fixture(limits: SessionLimits | null = null, floor: SandboxContext | null = null) {
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
      throw new TypeError('files are not used');
    },
    close: async () => {},
  };
  const { signal } = new AbortController();
  const releaseQuota = vi.fn();
  const session = {
    limits,
    lifecycleNotifications: false,
    takesBytes: () => false,
    policyRequests: {},
    policyDecisions: { end: () => {} },
    processes: {
      start: async ({ wrapInSandbox, spec }: StartRequest) => {
        specs.push(spec);
        await wrapInSandbox?.(spec, signal);
        throw new Error('the sandbox is built');
      },
    },
    shellStates: {
      restored: async (_login: unknown, { wrapInSandbox, spec }: LoginContext) => {
        await wrapInSandbox?.({ ...spec, program: 'login shell' }, signal);
        return spec;
      },
    },
  };
  const services = {
    session,
    processes: { requireUnattached: () => {} },
    directory: {
      enter: () => ({ manager: session.processes, limits: session.limits, key: 'p', ref: 'r' }),
    },
    config: {
      retainedOutputBytesPerProcess: 1,
      retainedChunksPerProcess: 1,
      snapshotHeadBytes: 0,
      recordDir: '',
    },
    connection: { notify: () => {} },
    files: { changesDone: () => null },
    quotas: { enterProcess: () => ({ started: () => {}, release: releaseQuota }) },
    records: {
      watch: (_id: string, listener: unknown) => listener,
      starting: () => null,
    },
    sandboxEnforcer: new SandboxEnforcer(
      floor,
      async () => sandbox,
      () => true,
    ),
    proxies: { serverPorts: new Set() },
    log: { warn: () => {} },
  } as unknown as HandlerServices;
  const start = (more: Partial<CheckedStart>) => startProcess(services, { ...START, ...more });
  return { start, sandboxed, releaseQuota, specs };
}

test.each<[string, Partial<CheckedStart>, string[]]>([
  ['unsandboxed', {}, []],
  ['in a sandbox', { sandbox: ONLINE }, ['/bin/sh enabled']],
  [
    'with the state of its login shell',
    { sandbox: ONLINE, login: LOGIN },
    ['login shell enabled', '/bin/sh enabled'],
  ],
  ['behind a proxy', { sandbox: ONLINE, enforceManagedNetwork: true }, ['/bin/sh proxied']],
  [
    'behind a proxy, with a login shell that has no network',
    { sandbox: ONLINE, login: LOGIN, enforceManagedNetwork: true },
    ['login shell restricted', '/bin/sh proxied'],
  ],
])('runs a program %s', async (_how, more, expected) => {
  const { start, sandboxed, releaseQuota } = fixture();
  await expect(start(more)).rejects.toThrow('the sandbox is built');
  expect(sandboxed).toEqual(expected);
  expect(releaseQuota).toHaveBeenCalled();
});

test.each([null, new SessionLimits({ ...NO_RESOURCE_LIMITS, pids: 5 })])(
  'passes the limits of the session to the program: %j',
  async (limits) => {
    const { start, specs } = fixture(limits);
    await expect(start({})).rejects.toThrow('the sandbox is built');
    expect(specs.map(({ sessionLimits }) => sessionLimits)).toEqual([limits]);
  },
);

test('refuses a network that the minimum sandbox of the server forbids', async () => {
  const { start } = fixture(null, { type: 'readOnly', networkAccess: false });
  const networkProxy = { proxy: settings(), auditMetadata: {} };
  await expect(start({ networkProxy })).rejects.toThrow('minSandbox');
});

describe('the sandbox of a program whose credentials are masked', () => {
  const PROXIES = { bundlePath: '/tmp/bundle.pem' };
  const masked = { proxy: settings({ credentialMasking: true }), auditMetadata: {} };
  const restricted = (entries: unknown[]) =>
    ({
      permissions: { type: 'managed', file_system: { type: 'restricted', entries }, network: 'enabled' },
      windowsSandboxLevel: 'disabled',
    }) as unknown as SandboxContext;

  test('may also read the certificate bundle of the proxy', () => {
    const other = { path: { type: 'path', path: 'file:///usr' }, access: 'read' };
    const readable = { path: { type: 'path', path: uri(PROXIES.bundlePath) }, access: 'read' };
    const sandbox = restricted([other]);
    expect(withTrustBundle({ sandbox, networkProxy: masked }, PROXIES)).toEqual(
      restricted([other, readable]),
    );
  });

  test.each([
    [null],
    [{ type: 'readOnly', networkAccess: false }],
    [{ permissions: { type: 'disabled' }, windowsSandboxLevel: 'disabled' }],
  ])('is unchanged where every file is readable: %j', (sandbox) => {
    const start = { sandbox: sandbox as SandboxContext | null, networkProxy: masked };
    expect(withTrustBundle(start, PROXIES)).toBe(sandbox);
  });

  test('is unchanged where nothing is masked', () => {
    const sandbox = restricted([]);
    const networkProxy = { proxy: settings(), auditMetadata: {} };
    expect(withTrustBundle({ sandbox, networkProxy }, PROXIES)).toBe(sandbox);
  });
});
