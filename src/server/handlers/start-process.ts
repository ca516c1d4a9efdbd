import type { ProcessListener } from '../../process/managed-process.ts';
import { effectiveLimits, type RequestedLimits } from '../../process/resources/resource-limits.ts';
import type { LoginCommand } from '../../process/shell-state/login-command.ts';
import { afterLogin } from '../../process/shell-state/shell-states.ts';
import type { SpawnSpec } from '../../process/spawn/spawner.ts';
import type { WrapInSandbox } from '../../process/start-program.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import type { SandboxContext } from '../../protocol/sandbox.ts';
import type { SandboxType } from '../../sandbox/sandbox-enforcer.ts';
import { type Dialect, processNotifier } from '../sessions/process-events.ts';
import { programNetwork } from './program-network.ts';
import { readableChunkBytes } from './read-result.ts';
import type { HandlerServices } from './services.ts';

/** A start that has been checked, in either dialect. */
export interface CheckedStart {
  readonly processId: string;
  readonly spec: SpawnSpec;
  readonly dialect: Dialect;
  /** Lowers the retained bytes below the configured limit. */
  readonly outputBytesCap?: number | null | undefined;
  /** What the client wants the program held to; the server's own limits hold in any case. */
  readonly limits?: RequestedLimits | null;
  /** What the client wants the program restricted to; the server's own floor holds in any case. */
  readonly sandbox?: SandboxContext | null;
  readonly networkProxy?: NetworkProxyLaunch | null;
  /** Whether a sandboxed program may use its proxy and nothing else of the network. */
  readonly enforceManagedNetwork?: boolean;
  /** Given for a command that wants the captured state of its login shell. */
  readonly login?: LoginCommand | null;
}

/** Starts a program in the session and reports its life in its dialect. Resolves to what confines it. */
export async function startProcess(services: HandlerServices, start: CheckedStart): Promise<SandboxType> {
  const { session, config, connection, files, quotas, records, sandboxEnforcer } = services;
  const { processId, dialect } = start;
  const { resources, run: limits } = effectiveLimits(start.limits, {
    memoryBytes: config.maxProcessMemoryBytes,
    pids: config.maxProcessPids,
    cpuPercent: config.maxProcessCpuPercent,
    wallMs: config.maxProcessWallMs,
    idleMs: config.maxProcessIdleMs,
    outputBytes: config.maxProcessOutputBytes,
  });
  const spec = { ...start.spec, resources, sessionLimits: session.limits };
  const sandbox = start.sandbox ?? null;
  const login = sharedLogin(start);
  const network = programNetwork(services, start);
  const { sandboxType, wrapInSandbox: wrapCommand } = sandboxEnforcer.program(
    network === null ? sandbox : network.sandbox,
    spec,
    () => network?.sockets ?? null,
  );
  const forShell = login ? shellSandbox(sandboxEnforcer, start, spec) : null;
  const wrapLogin = login
    ? afterLogin(session.shellStates, login, { description: sandbox, forShell, forCommand: wrapCommand })
    : wrapCommand;
  const wrapInSandbox = network === null ? wrapLogin : network.around(wrapLogin);
  const maxBytes = Math.min(
    config.retainedOutputBytesPerProcess,
    start.outputBytesCap ?? Number.POSITIVE_INFINITY,
  );
  const retention = {
    maxBytes,
    maxChunks: config.retainedChunksPerProcess,
    headBytes: Math.min(config.snapshotHeadBytes, maxBytes),
    maxChunkBytes: readableChunkBytes(config.maxResponseBytes),
  };
  const notifier = processNotifier(processId, dialect, session);
  let leave = () => {};
  let recorded: Promise<void> | null = null;
  try {
    leave = quotas.enterProcess();
    const listener: ProcessListener = records.watch(processId, {
      ...notifier,
      closed: (...event) => {
        leave();
        network?.close();
        notifier.closed(...event);
      },
    });
    // A client that writes a script and starts it need not wait for the first answer.
    const changesDone = files.changesDone();
    const policy = { sandbox: sandboxType, limits: { ...resources, ...limits } };
    recorded = records.starting(processId, spec, policy);
    const after = recorded === null ? changesDone : Promise.all([changesDone, recorded]).then(() => {});
    // Whoever finds the id taken does not wait for it.
    after?.catch(() => {});
    await session.processes.start({ processId, spec, retention, listener, after, limits, wrapInSandbox });
  } catch (error) {
    leave();
    network?.close();
    if (recorded !== null) records.startFailed(processId, error as Error);
    if (session.lifecycleNotifications) {
      connection.notify('process/failed', { processId, message: (error as Error).message });
    }
    throw error;
  }
  network?.started();
  records.started();
  if (session.lifecycleNotifications) connection.notify('process/started', { processId });
  return sandboxType;
}

/**
 * The state that a shell is asked for is shared by programs, and made with the request's own environment. A program that must not see
 * its credentials logs in by itself.
 */
function sharedLogin({ login = null, networkProxy = null }: CheckedStart): LoginCommand | null {
  return networkProxy?.proxy.credentialMasking ? null : login;
}

/**
 * What a login shell runs inside of that is asked for its state. It has no use for a proxy and must not take the program's sockets; nor
 * may it get at the network that the program is kept from: what it reads may have been written by such a program.
 */
function shellSandbox(
  sandboxEnforcer: HandlerServices['sandboxEnforcer'],
  { sandbox = null, enforceManagedNetwork = false }: CheckedStart,
  spec: SpawnSpec,
): WrapInSandbox | null {
  if (sandbox !== null && enforceManagedNetwork) return sandboxEnforcer.withoutNetwork(sandbox, spec);
  return sandboxEnforcer.program(sandbox, spec).wrapInSandbox;
}
