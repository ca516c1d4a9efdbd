import type { FairShares } from '../base/fair-shares.ts';
import { once } from '../base/once.ts';
import { nativePathOfText } from '../files/native-path.ts';
import type { ContentSearch } from '../files/search/content-search.ts';
import { ProxyResources } from '../network/proxy/proxy-resources.ts';
import type { TcpConnector } from '../network/tcp/tcp-connector.ts';
import type { Logger } from '../observability/log.ts';
import { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import type { ListeningPorts } from '../process/tree/listening-ports.ts';
import type { NotificationParamsOf } from '../protocol/registry.ts';
import { RecordingStore } from '../recording/recording-store.ts';
import { helperProgram } from '../sandbox/file-helper-program.ts';
import { sandboxIsLikely } from '../sandbox/prediction.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { SandboxEnforcer } from '../sandbox/sandbox-enforcer.ts';
import type { ExecServerConfig } from './config/config.ts';
import { type EnvironmentInfo, environmentDescriber } from './environment-info.ts';
import { type FastPaths, fastPathsFor } from './fast-paths.ts';
import { hostList, hostPolicyOf } from './sessions/connection-http.ts';
import { PortScanner } from './sessions/port-scanner.ts';
import { Quotas } from './sessions/quotas.ts';
import { SessionRegistry } from './sessions/session-registry.ts';
import { readMinSandbox } from './start-checks.ts';

/** The parts of the server that all connections share. */
export interface ConnectionServices {
  readonly config: ExecServerConfig;
  readonly fastPaths: FastPaths;
  readonly sessions: SessionRegistry;
  readonly quotas: Quotas;
  readonly sandboxEnforcer: SandboxEnforcer;
  readonly proxies: ProxyResources;
  search(): Promise<ContentSearch>;
  tcpConnector(): Promise<TcpConnector>;
  readonly portScanner: PortScanner;
  /** Null where recordings are switched off. */
  readonly recordings: RecordingStore | null;
  readonly log: Logger;
  environmentInfo(): EnvironmentInfo;
  /** What is announced to clients while the server drains; null while it does not. */
  draining(): NotificationParamsOf<'server/draining'> | null;
  /** Called for every new or resumed session. */
  sessionOpened(): void;
}

interface SharedServicesOptions {
  readonly inProcess: boolean;
  readonly log: Logger;
  /** A directory that no sandbox shows. */
  readonly hiddenDirectory?: string;
  /** File descriptors for programs, open files and connections to other hosts. */
  readonly descriptors: number;
  /** What is announced while the server drains; null while it does not. */
  draining: ConnectionServices['draining'];
  /** Called for every new or resumed session. */
  sessionOpened(): void;
}

/** Creates what all connections of a server share. The parts that few clients need are loaded with their first use. */
export function createServices(
  config: ExecServerConfig,
  { inProcess, log, hiddenDirectory, descriptors, draining, sessionOpened }: SharedServicesOptions,
): { readonly spawner: LazySpawner; readonly services: ConnectionServices } {
  const fastPaths = fastPathsFor(config, { inProcess });
  const spawner = new LazySpawner({
    native: config.nativeSpawn,
    protectServer: config.protectMemory,
    openCached: fastPaths.openCached,
  });
  const quotas = new Quotas({ ...config, descriptors });
  const proxies = new ProxyResources(undefined, undefined, quotas.descriptors);
  const sessions = new SessionRegistry(config, spawner);
  const sandboxEnforcer = new SandboxEnforcer(
    readMinSandbox(config.minSandbox),
    () => loadSandbox(spawner, fastPaths, { ...config, descriptors: quotas.descriptors }),
    () => spawner.pty.available && sandboxIsLikely(process.env.PATH ?? '', config.bwrapPath),
    hiddenDirectory === undefined ? null : nativePathOfText(hiddenDirectory),
  );
  const describeEnvironment = environmentDescriber(config);
  const services: ConnectionServices = {
    config,
    fastPaths,
    log,
    sessions,
    portScanner: new PortScanner(sessions.directory, () => loadListeningPorts(spawner)),
    quotas,
    recordings: createRecordings(config, log),
    proxies,
    sandboxEnforcer,
    search: once(() => loadContentSearch(config)),
    tcpConnector: once(() => loadTcpConnector(config, proxies)),
    environmentInfo: () =>
      describeEnvironment({
        terminals: spawner.pty.available,
        sandbox: sandboxEnforcer.usable,
        inProcess,
      }),
    draining,
    sessionOpened,
  };
  return { spawner, services };
}

function createRecordings(config: ExecServerConfig, log: Logger): RecordingStore | null {
  const { recordDir: directory, maxRecordingBytes, maxRecordingsBytes: maxBytes } = config;
  if (maxBytes === 0) return null;
  return new RecordingStore({
    directory,
    maxRecordingBytes,
    maxBytes,
    maxAgeMs: config.recordingRetentionMs,
    log,
  });
}

async function loadSandbox(
  spawner: LazySpawner,
  { prebuildSandboxes: prebuild }: FastPaths,
  options: Pick<ExecServerConfig, 'bwrapPath' | 'helperDirectory'> & { readonly descriptors: FairShares },
): Promise<Sandbox> {
  const { createSandbox } = await import('../sandbox/create-sandbox.ts');
  const { bwrapPath, helperDirectory, descriptors } = options;
  const settings = { prebuild, descriptors, bwrapPath, helperDirectory };
  return createSandbox(await spawner.prepare(), process.env, settings);
}

async function loadListeningPorts({ readTag }: LazySpawner): Promise<ListeningPorts> {
  const { ListeningPorts } = await import('../process/tree/listening-ports.ts');
  return new ListeningPorts(readTag);
}

async function loadTcpConnector(
  config: ExecServerConfig,
  { resolve, serverPorts }: ProxyResources,
): Promise<TcpConnector> {
  const { TcpConnector } = await import('../network/tcp/tcp-connector.ts');
  const { denied, privateAddresses } = await hostPolicyOf(config);
  const allowed = await hostList(config.tcpAllowedHosts, '--tcp-allowed-hosts');
  return new TcpConnector({ policy: { allowed, denied, privateAddresses }, resolve, serverPorts });
}

async function loadContentSearch({ ripgrepPath, helperDirectory }: ExecServerConfig): Promise<ContentSearch> {
  const { ContentSearch } = await import('../files/search/content-search.ts');
  return new ContentSearch(process.env.PATH ?? '', {
    ...(ripgrepPath !== '' && { ripgrep: ripgrepPath }),
    ...(helperDirectory !== '' && { searchThread: helperProgram(helperDirectory).searchThread }),
  });
}
