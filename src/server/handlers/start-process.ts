import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import type { ProxyResources } from '../../network/proxy/proxy-resources.ts';
import { OUTPUT_READ_BYTES } from '../../process/limits.ts';
import { type EffectiveLimits, effectiveLimits } from '../../process/resources/resource-limits.ts';
import type { RetentionLimits } from '../../process/retained-stream.ts';
import type { SpawnSpec } from '../../process/spawn/spawner.ts';
import { type SandboxedLaunch, unsandboxedLaunch, type WrapInSandbox } from '../../process/start-program.ts';
import { invalidRequest } from '../../protocol/errors.ts';
import type { SandboxContext } from '../../protocol/sandbox.ts';
import type { ProgramSandbox, SandboxType } from '../../sandbox/sandbox-enforcer.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { DEFAULT_DETACHED_RETENTION_MS } from '../limits.ts';
import { descriptorsOfProgram } from '../sessions/quotas.ts';
import { listedSandbox } from './listed-sandbox.ts';
import type { ProgramNetwork } from './program-network.ts';
import { recordProcess, type StartedRecording } from './record-process.ts';
import { heldOutputBytes, retentionOf } from './retention.ts';
import type { HandlerServices } from './services.ts';
import type { CheckedStart } from './start-request.ts';

/** What a start leads to. */
interface StartedProcess {
  /** The type of sandbox that the program runs in. */
  readonly sandboxType: SandboxType;
  /** The server-wide reference of the process. */
  readonly ref: string;
  /** Null when it is not recorded. */
  readonly recordingId: string | null;
}

/**
 * Starts a checked request. The stages: limits, network and sandbox are decided; the process gets its reference; the start is recorded;
 * the process manager reserves the id, calls {@link prepareLaunch} and spawns the program; the client is notified. A detached process
 * belongs to its owner and not to the session. All detached processes of an owner together have the limits of one session.
 */
export async function startProcess(services: HandlerServices, start: CheckedStart): Promise<StartedProcess> {
  const { session, processes, directory, config, files, quotas, records } = services;
  const { processId, name, lifetime, windowBytes, dialect } = start;
  processes.requireUnattached(processId);
  const limits = limitsOf(start, config);
  const retention = retentionOf(config, start.outputBytesCap, session.takesBytes(OUTPUT_READ_BYTES));
  const heldBytes = start.holdOutput ? requireHeldBytes(retention) : null;
  const shared = directory.enter(session, {
    processId,
    name,
    lifetime: lifetime.type,
    windowBytes,
    heldBytes,
    dialect,
  });
  const owner = lifetime.type === 'detached' ? shared.manager : session;
  const spec = {
    ...start.spec,
    resources: limits.resources,
    sessionLimits: shared.limits,
    owner,
  };
  requireNetworkAllowed(services, start);
  const launch = planLaunch(services, start, spec);
  const { sandboxType } = launch.sandbox;

  let recorded: Promise<void> | null = null;
  let recording: StartedRecording | null = null;
  try {
    const quota = quotas.enterProcess(owner, descriptorsOf(launch, config));
    launch.releaseQuota = quota.release;
    shared.transferQuota = quota.transfer;
    shared.beforeEnd = () => releaseLaunch(launch);
    if (sandboxType !== 'none') shared.sandbox = listedSandbox(start);
    const watched = records.watch(processId, shared);
    recording = recordProcess(services, start, spec, shared);
    const listener = recording?.recording.watch(watched) ?? watched;
    // A client may write a script and start it without waiting for the response to the write.
    const changesDone = files.changesDone();
    recorded = records.starting({ processId, ref: shared.ref }, spec, {
      sandbox: sandboxType,
      limits: { ...limits.resources, ...limits.run },
    });
    await shared.manager.start({
      processId: shared.key,
      observer: shared,
      retainMs: lifetime.type === 'session' ? null : retainMsOf(lifetime, config),
      spec,
      listener,
      retention,
      limits: limits.run,
      after: allDone(changesDone, recorded, recording?.opened ?? null),
      wrapInSandbox: needsPreparation(launch) ? (...attempt) => prepareLaunch(launch, ...attempt) : null,
    });
    quota.started();
  } catch (error) {
    releaseLaunch(launch);
    recording?.discard();
    if (recorded !== null) records.startFailed(processId, error as Error);
    notifyFailed(services, processId, error as Error);
    throw error;
  }
  serveNetwork(launch);
  records.started();
  notifyStarted(services, processId);
  return { sandboxType, ref: shared.ref, recordingId: recording?.recording.recordingId ?? null };
}

function requireHeldBytes(retention: RetentionLimits): number {
  const heldBytes = heldOutputBytes(retention);
  if (heldBytes !== null) return heldBytes;
  throw invalidRequest(
    'this server retains too little output to hold it; leave holdOutput out, or raise retainedOutputBytesPerProcess and retainedChunksPerProcess',
  );
}

/** The stricter of the requested and the configured limits. */
function limitsOf({ limits }: CheckedStart, config: ExecServerConfig): EffectiveLimits {
  return effectiveLimits(limits, {
    memoryBytes: config.maxProcessMemoryBytes,
    pids: config.maxProcessPids,
    cpuPercent: config.maxProcessCpuPercent,
    wallMs: config.maxProcessWallMs,
    idleMs: config.maxProcessIdleMs,
    outputBytes: config.maxProcessOutputBytes,
  });
}

/** How long a detached process stays readable after it has closed. */
export function retainMsOf(
  lifetime: { readonly retainMs?: number | undefined },
  { maxDetachedRetentionMs }: ExecServerConfig,
): number {
  return Math.min(lifetime.retainMs ?? DEFAULT_DETACHED_RETENTION_MS, maxDetachedRetentionMs);
}

/** One program on its way to being started, with everything that is released when it ends. */
interface Launch {
  readonly services: HandlerServices;
  readonly start: CheckedStart;
  readonly sandbox: ProgramSandbox;
  /** The sandbox of the login shell whose state is captured; null where the shell runs unsandboxed or none is needed. */
  readonly shellSandbox: WrapInSandbox | null;
  /** Opened right before the program is sandboxed. */
  network: ProgramNetwork | null;
  releaseQuota: () => void;
}

function planLaunch(services: HandlerServices, start: CheckedStart, spec: SpawnSpec): Launch {
  const { sandboxEnforcer, proxies } = services;
  return {
    services,
    start,
    sandbox: sandboxEnforcer.program(withTrustBundle(start, proxies), spec),
    shellSandbox: usesLoginState(start) ? shellSandboxOf(services, start, spec) : null,
    network: null,
    releaseQuota: () => {},
  };
}

function descriptorsOf(
  { start, sandbox }: Launch,
  { recordDir }: ExecServerConfig,
): ReturnType<typeof descriptorsOfProgram> {
  return descriptorsOfProgram(start.spec.io, {
    recording: start.record !== null || recordDir !== '',
    sandbox: sandbox.wrapInSandbox !== null,
    network: asksForNetwork(start),
    loginShell: usesLoginState(start),
  });
}

function needsPreparation({ start, sandbox }: Launch): boolean {
  return asksForNetwork(start) || usesLoginState(start) || sandbox.wrapInSandbox !== null;
}

/** Prepares one attempt to start the program: its network, then its login shell state, then its sandbox. */
async function prepareLaunch(launch: Launch, spec: SpawnSpec, signal: AbortSignal): Promise<SandboxedLaunch> {
  const connected = await connectNetwork(launch, spec);
  const loggedIn = await restoreLoginState(launch, connected, signal);
  return await buildSandbox(launch, loggedIn, signal);
}

/** Opens the program's network and adds its proxy to the environment. A repeated attempt uses the same network. */
async function connectNetwork(launch: Launch, spec: SpawnSpec): Promise<SpawnSpec> {
  const { start, services } = launch;
  if (!asksForNetwork(start)) return spec;
  const { processId, networkProxy } = start;
  const { proxies, session } = services;
  const { policyRequests, policyDecisions } = session;
  const { ProgramNetwork } = await import('./program-network.ts');
  launch.network ??= await ProgramNetwork.open(
    { processId, env: spec.env, networkProxy, sandboxed: hasOwnNetwork(start) },
    { proxies, owner: session, policyRequests, policyDecisions },
    process.env,
  );
  return launch.network === null ? spec : { ...spec, env: launch.network.environmentOver(spec.env) };
}

/** Gives a login command the captured state of its login shell. */
async function restoreLoginState(launch: Launch, spec: SpawnSpec, signal: AbortSignal): Promise<SpawnSpec> {
  const { start, shellSandbox, services } = launch;
  if (!usesLoginState(start)) return spec;
  const shell = { spec, sandbox: start.sandbox, wrapInSandbox: shellSandbox };
  return await services.session.shellStates.restored(start.login, shell, signal);
}

async function buildSandbox(
  { sandbox, network }: Launch,
  spec: SpawnSpec,
  signal: AbortSignal,
): Promise<SandboxedLaunch> {
  if (sandbox.wrapInSandbox === null) return unsandboxedLaunch(spec);
  return await sandbox.wrapInSandbox(spec, signal, network?.sockets ?? null);
}

function serveNetwork({ network, services, start: { processId } }: Launch): void {
  network?.started((error) =>
    services.log.warn('a program has no network: its sockets did not arrive', {
      processId,
      reason: error.message,
    }),
  );
}

function releaseLaunch({ network, releaseQuota }: Launch): void {
  releaseQuota();
  network?.close();
}

/** Resolves when all are done that a start waits for. Null when there is nothing to wait for. */
function allDone(...waits: readonly (Promise<void> | null)[]): Promise<void> | null {
  const given = waits.filter((wait) => wait !== null);
  const done = given.length > 1 ? Promise.all(given).then(() => {}) : (given[0] ?? null);
  // A start whose id is taken fails before it waits; the rejection must not be reported as unhandled then.
  done?.catch(() => {});
  return done;
}

function notifyStarted({ session, connection }: HandlerServices, processId: string): void {
  if (session.lifecycleNotifications) connection.notify('process/started', { processId });
}

function notifyFailed({ session, connection }: HandlerServices, processId: string, error: Error): void {
  if (session.lifecycleNotifications) {
    connection.notify('process/failed', { processId, message: error.message });
  }
}

function asksForNetwork(start: CheckedStart): boolean {
  return start.networkProxy !== null || hasOwnNetwork(start);
}

/** Whether the program runs in its own network namespace, in which it reaches its proxy and nothing else. */
function hasOwnNetwork({ enforceManagedNetwork, sandbox }: CheckedStart): boolean {
  return enforceManagedNetwork && sandbox !== null;
}

/** Throws RpcError when a start asks for a network that the server's minimum sandbox forbids. */
function requireNetworkAllowed({ sandboxEnforcer }: HandlerServices, start: CheckedStart): void {
  if (!asksForNetwork(start) || !sandboxEnforcer.networkForbidden) return;
  throw invalidRequest(
    'this server does not allow programs to use the network (minSandbox); send networkProxy null and enforceManagedNetwork false',
  );
}

/**
 * Whether the start uses the captured state of its login shell. Several programs share that state, and it is captured with the
 * environment of the request. A program that must not see the credentials in that environment logs in by itself.
 */
function usesLoginState(
  start: CheckedStart,
): start is CheckedStart & { readonly login: NonNullable<CheckedStart['login']> } {
  return start.login !== null && !start.networkProxy?.proxy.credentialMasking;
}

/**
 * The sandbox of the login shell whose state is captured. The shell does not need a proxy and must not take the program's sockets.
 * It must not reach a network that the program cannot reach, because the files that it reads may come from such a program.
 */
function shellSandboxOf(
  { sandboxEnforcer }: HandlerServices,
  start: CheckedStart,
  spec: SpawnSpec,
): WrapInSandbox | null {
  const { sandbox } = start;
  if (sandbox !== null && hasOwnNetwork(start)) return sandboxEnforcer.withoutNetwork(sandbox, spec);
  return sandboxEnforcer.program(sandbox, spec).wrapInSandbox;
}

/**
 * The requested sandbox of the program. Where credentials are masked, the program may also read the proxy's certificate bundle.
 * Sandboxes that are requested by name leave every file readable.
 */
export function withTrustBundle(
  { sandbox, networkProxy }: Pick<CheckedStart, 'sandbox' | 'networkProxy'>,
  proxies: Pick<ProxyResources, 'bundlePath'>,
): SandboxContext | null {
  if (!networkProxy?.proxy.credentialMasking) return sandbox;
  if (sandbox === null || !('permissions' in sandbox)) return sandbox;
  const { permissions } = sandbox;
  if (permissions.type !== 'managed' || permissions.file_system.type !== 'restricted') return sandbox;
  const uri = uriFromPath(nativePathOfText(proxies.bundlePath));
  const readable = { path: { type: 'path', path: uri }, access: 'read' } as const;
  const file_system = {
    ...permissions.file_system,
    entries: [...permissions.file_system.entries, readable],
  };
  return { ...sandbox, permissions: { ...permissions, file_system } };
}
