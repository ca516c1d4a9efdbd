import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { nativePathOfText } from '../files/native-path.ts';
import { uriFromPath } from '../files/path-uri.ts';
import { VERSION } from '../observability/version.ts';
import { loginShell, passwdEntry } from '../process/login-shell.ts';
import type { Capability } from '../protocol/environment.ts';
import { METHODS, type ResultOf } from '../protocol/registry.ts';
import type { ExecServerConfig } from './config/config.ts';
import { heldOutputBytes, retentionOf } from './handlers/retention.ts';
import { longestDetachedTtlMs, ttlOnTheWire } from './sessions/detached-ttl.ts';

export type EnvironmentInfo = ResultOf<'environment/info'>;

/** What the server can use on this system. */
interface Facilities {
  readonly terminals: boolean;
  /** Whether sandboxes can be enforced. */
  readonly sandbox: boolean;
  /** Whether the server ends with its only client. */
  readonly inProcess: boolean;
}

/**
 * Returns a function that describes this machine and this server to a client. It keeps the description until the facilities change: a
 * server describes itself to every client, and a lookup in the user database may wait for a directory service.
 */
export function environmentDescriber(config: ExecServerConfig): (facilities: Facilities) => EnvironmentInfo {
  let known: { readonly facilities: Facilities; readonly info: EnvironmentInfo } | null = null;
  return (facilities) => {
    const isCurrent =
      known?.facilities.terminals === facilities.terminals && known.facilities.sandbox === facilities.sandbox;
    if (!isCurrent) known = { facilities, info: describeEnvironment(config, facilities) };
    return known!.info;
  };
}

/** Describes this machine and this server to a client. */
export function describeEnvironment(
  config: ExecServerConfig,
  facilities: Facilities,
  readPasswd = passwdEntry,
): EnvironmentInfo {
  const { TMPDIR } = process.env;
  const temporary = TMPDIR ? resolvedUri(TMPDIR) : null;
  return {
    shell: loginShell(),
    executorVersion: VERSION,
    providerId: `sha256:${createHash('sha256').update(`${hostname()}\n${VERSION}`).digest('hex')}`,
    cwd: resolvedUri('.'),
    userHomeDir: uriOfText(process.env.HOME || readPasswd()?.homedir || '/'),
    platformOs: platformName(),
    prependPathDirs: [],
    temporaryDirectories: temporary === null ? [] : [temporary],
    tempDir: temporary ?? 'file:///tmp',
    capabilities: capabilities(config, facilities),
    limits: {
      shutdownGracePeriodMs: config.shutdownGracePeriodMs,
      maxProcessesPerConnection: config.maxProcessesPerConnection,
      retainedOutputBytesPerProcess: config.retainedOutputBytesPerProcess,
      allowDirectExec: config.allowDirectExec,
      allowPreparedExec: config.allowPreparedExec,
      detachedSessionTtlMs: ttlOnTheWire(config.detachedSessionTtlMs),
      maxDetachedSessionTtlMs: ttlOnTheWire(longestDetachedTtlMs(config)),
      maxMessageBytes: config.maxMessageBytes,
    },
  };
}

/** The capabilities of the registry's methods, of the options of `process/start`, and of this system. */
function capabilities(
  config: ExecServerConfig,
  { terminals, sandbox, inProcess }: Facilities,
): Partial<Record<Capability, boolean>> {
  const flags: Partial<Record<Capability, boolean>> = {
    pty: terminals,
    processReadPosition: true,
    processOutputTimes: true,
    processSignals: true,
    processTerminateModes: true,
    processStartForms: config.allowPreparedExec || config.allowDirectExec,
    processLimits: true,
    processHoldOutput: heldOutputBytes(retentionOf(config)) !== null,
    lifecycleNotifications: true,
    droppedProcesses: true,
    readOnlyConnections: true,
    drainNotice: true,
    binaryMessages: true,
    fsAtomicReplace: true,
    fsResume: true,
    fsCloseHash: true,
    fsIfSha256: true,
    shellSnapshotV2: true,
    networkProxyLaunch: true,
    networkProxyReviewDomains: true,
    credentialMasking: true,
    credentialMaskingCustomProviders: true,
    capabilityDiscoverySandbox: sandbox,
    sandboxedFileStreaming: sandbox,
    linuxRootWritePreservesDevices: sandbox,
    linuxApprovedRootWritePreservesRestrictions: sandbox,
  };
  for (const { capability } of Object.values(METHODS)) {
    if (capability !== undefined) flags[capability] = true;
  }
  flags.processResize = terminals;
  flags.processSetLifetime = !inProcess;
  flags.processRecording = config.maxRecordingsBytes > 0;
  return flags;
}

/** Null for a relative path when the working directory has been removed. */
function resolvedUri(path: string): string | null {
  try {
    return uriOfText(resolve(path));
  } catch {
    return null;
  }
}

function uriOfText(path: string): string {
  return uriFromPath(nativePathOfText(path));
}

function platformName(): string {
  if (process.platform === 'darwin') return 'macos';
  return process.platform === 'win32' ? 'windows' : process.platform;
}
