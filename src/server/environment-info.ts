import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { hostname, type UserInfo, userInfo } from 'node:os';
import { basename, resolve } from 'node:path';
import { uriFromPath } from '../files/path-uri.ts';
import type { Capability } from '../protocol/environment.ts';
import { METHODS, type ResultOf } from '../protocol/registry.ts';
import type { ExecServerConfig } from './config.ts';
import { VERSION } from './version.ts';

export type EnvironmentInfo = ResultOf<'environment/info'>;

/** Describes this machine and this server to a client. */
export function describeEnvironment(config: ExecServerConfig, ptyAvailable: boolean): EnvironmentInfo {
  const temporary = process.env.TMPDIR;
  const temporaryDirectories = temporary ? [uriFromPath(resolve(temporary))] : [];
  return {
    shell: loginShell(),
    executorVersion: VERSION,
    providerId: `sha256:${createHash('sha256').update(`${hostname()}\n${VERSION}`).digest('hex')}`,
    cwd: uriFromPath(process.cwd()),
    userHomeDir: uriFromPath(homeDirectory()),
    platformOs: platformName(),
    prependPathDirs: [],
    temporaryDirectories,
    tempDir: temporaryDirectories[0] ?? 'file:///tmp',
    capabilities: capabilities(config, ptyAvailable),
    limits: {
      shutdownGracePeriodMs: config.shutdownGracePeriodMs,
      maxProcessesPerConnection: config.maxProcessesPerConnection,
      retainedOutputBytesPerProcess: config.retainedOutputBytesPerProcess,
      allowDirectExec: config.allowDirectExec,
      allowPreparedExec: config.allowPreparedExec,
      detachedSessionTtlMs: config.detachedSessionTtlMs,
      maxMessageBytes: config.maxMessageBytes,
    },
  };
}

/** The login shell of the server's user, or the nearest shell there is. $SHELL is the starter's taste and does not count. */
export function loginShell(): { name: string; path: string } {
  const candidates = [passwdEntry()?.shell, '/bin/bash', '/usr/bin/bash', '/bin/zsh', '/bin/sh'];
  for (const path of candidates) {
    if (!path || !existsSync(path)) continue;
    const name = basename(path);
    if (KNOWN_SHELLS.has(name)) return { name, path };
  }
  return { name: 'sh', path: '/bin/sh' };
}

const KNOWN_SHELLS = new Set(['bash', 'zsh', 'sh']);

/** True for each capability that a method of the registry brings, and for what `process/start` understands. */
function capabilities(config: ExecServerConfig, ptyAvailable: boolean): Partial<Record<Capability, boolean>> {
  const flags: Partial<Record<Capability, boolean>> = {
    pty: ptyAvailable,
    processSignals: true,
    processTerminateModes: true,
    processStartForms: config.allowPreparedExec || config.allowDirectExec,
    lifecycleNotifications: true,
  };
  for (const { capability } of Object.values(METHODS)) {
    if (capability !== undefined) flags[capability] = true;
  }
  flags.processResize = ptyAvailable;
  return flags;
}

function homeDirectory(): string {
  return process.env.HOME || passwdEntry()?.homedir || '/';
}

/** Null for a user without a passwd entry, as containers that run under an arbitrary uid have. */
function passwdEntry(): UserInfo<string> | null {
  try {
    return userInfo();
  } catch {
    return null;
  }
}

function platformName(): string {
  if (process.platform === 'darwin') return 'macos';
  return process.platform === 'win32' ? 'windows' : process.platform;
}
