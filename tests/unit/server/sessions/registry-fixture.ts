import { expect } from 'vitest';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../../src/server/config/config.ts';
import type { Session } from '../../../../src/server/sessions/session.ts';
import { SessionRegistry } from '../../../../src/server/sessions/session-registry.ts';
import { FakeSpawner } from '../../process/fake-child.ts';

export const TTL_MS = 30_000;

/** A client that accepts everything. */
export const PEER = {
  saturated: false,
  sendBulk: () => undefined,
  call: async () => undefined,
  probe: () => undefined,
  confirmReceived: (_sentBeforeMs: number, confirmed: () => void) => confirmed(),
};

/** A registry with programs that the test ends. */
export function createRegistry(config: Partial<ExecServerConfig> = {}) {
  const spawner = new FakeSpawner();
  const registry = new SessionRegistry(
    { ...DEFAULT_CONFIG, detachedSessionTtlMs: TTL_MS, ...config },
    spawner,
  );
  const attached = (client?: string) => {
    const session = registry.create(undefined, client);
    session.attach(PEER);
    return session;
  };
  const run = async (session: Session, processId = 'p') => {
    const options = {
      name: null,
      lifetime: 'session',
      windowBytes: null,
      heldBytes: null,
      dialect: 'process',
    } as const;
    const shared = registry.directory.enter(session, { processId, ...options });
    const started = session.processes.start({
      processId,
      observer: shared,
      spec: { program: 'p', argv: ['p'], cwd: '/', env: {}, io: { kind: 'pipe', stdin: 'closed' } },
      retention: { headBytes: 0, tailBytes: 1_000, maxChunks: 10 },
      listener: shared,
    });
    const child = spawner.succeed();
    await started;
    return child;
  };
  return { registry, spawner, attached, run };
}

/** The error for an unknown session. */
export const unknown = (id: string) =>
  expect.objectContaining({ code: -32600, message: `unknown session id ${id}` });
/** Waits until the events of this turn are handled. */
export const settled = () => new Promise(setImmediate);

/** Whether a client can resume the session. */
export function isKnown(registry: SessionRegistry, id: string): boolean {
  try {
    return registry.resume(id) !== null;
  } catch {
    return false;
  }
}
