import { readFileSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { isAbsolute, normalize } from 'node:path';
import {
  isLoopback,
  type ListenAddress,
  type SocketAddress,
  type UnixAddress,
} from '../listener/listen-url.ts';
import { StartError } from '../listener/start-error.ts';
import type { TlsFiles } from '../listener/tls.ts';
import { nativeUnavailableReason } from '../native/native-support.ts';
import { Sandbox, type SandboxContext } from '../protocol/sandbox.ts';
import { validateParams } from '../protocol/validate.ts';
import { helperProgram, requireHelperProgram } from '../sandbox/file-helper-program.ts';
import { policyOf } from '../sandbox/policy/normalize.ts';
import { executableFile, weaknessOf } from '../sandbox/trusted-program.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from './config/config.ts';
import { refuseBadNetworkSettings } from './sessions/connection-http.ts';

/**
 * Rejects with StartError for settings that the server cannot honour. A server that does not start is better than one that refuses
 * every request, or allows every request.
 */
export async function checkSettings(config: ExecServerConfig, address: ListenAddress): Promise<void> {
  refuseUnsafeAccess(config, address);
  await refuseUnenforceableLimits(config);
  await refuseBadNetworkSettings(config);
  await refuseMissingPrograms(config);
}

/** Rejects with StartError when a configured program of the server is not there, or when other users could replace it. */
async function refuseMissingPrograms(config: ExecServerConfig): Promise<void> {
  for (const [key, flag] of [
    ['bwrapPath', '--bwrap-path'],
    ['ripgrepPath', '--ripgrep-path'],
  ] as const) {
    const path = config[key];
    if (path === '') continue;
    if (!isAbsolute(path)) throw new StartError(`${flag} ${path}: expected an absolute path`);
    await executableFile(path).catch(({ code }: NodeJS.ErrnoException) => {
      throw new StartError(`${flag} ${path}: not an executable file (${code}); correct it or leave it out`);
    });
    await refuseReplaceable(flag, path);
  }
  const { helperDirectory } = config;
  if (helperDirectory === '') return;
  if (!isAbsolute(helperDirectory)) {
    throw new StartError(`--helper-directory ${helperDirectory}: expected an absolute path`);
  }
  const helper = helperProgram(helperDirectory);
  await requireHelperProgram(helper).catch((error: Error) => {
    throw new StartError(error.message);
  });
  for (const file of [helper.main, helper.searchThread]) await refuseReplaceable('--helper-directory', file);
}

/** Checks the path as given, which may contain links, and where it leads. */
async function refuseReplaceable(flag: string, path: string): Promise<void> {
  const weakness = (await weaknessOf(normalize(path))) ?? (await weaknessOf(await realpath(path)));
  if (weakness === null) return;
  throw new StartError(
    `${flag} ${path}: the program cannot be trusted because ${weakness}; ` +
      "only root and the server's user may own and write the file and its directories",
  );
}

/** Throws StartError when the settings for authentication contradict each other, or would let every client in. */
export function refuseUnsafeAccess(config: ExecServerConfig, address: ListenAddress): void {
  const problem =
    authProblem(config) ??
    revocationProblem(config) ??
    consoleProblem(config, address) ??
    metricsProblem(config) ??
    listenerProblem(config, address);
  if (problem !== null) throw new StartError(problem);
}

const TOKEN_SETTINGS = ['wsTokenFile', 'wsTokenSha256'] as const;
const SIGNED_SETTINGS = ['wsSharedSecretFile', 'wsIssuer', 'wsAudience', 'wsMaxClockSkewSeconds'] as const;

function authProblem(config: ExecServerConfig): string | null {
  const given = (key: keyof ExecServerConfig) => config[key] !== DEFAULT_CONFIG[key];
  switch (config.wsAuth) {
    case 'none':
      return [...TOKEN_SETTINGS, ...SIGNED_SETTINGS].some(given)
        ? 'websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`'
        : null;
    case 'capability-token':
      if (SIGNED_SETTINGS.some(given)) {
        return '`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`';
      }
      if (TOKEN_SETTINGS.every(given)) {
        return '`--ws-token-file` and `--ws-token-sha256` are mutually exclusive';
      }
      if (!TOKEN_SETTINGS.some(given)) {
        return '`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set';
      }
      return given('wsTokenSha256') && !/^[0-9a-f]{64}$/i.test(config.wsTokenSha256.trim())
        ? '--ws-token-sha256 must be a 64-character hex SHA-256 digest'
        : null;
    case 'signed-bearer-token':
      if (TOKEN_SETTINGS.some(given)) {
        return '`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`';
      }
      return given('wsSharedSecretFile')
        ? null
        : '`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set';
  }
}

function revocationProblem({ wsAuth, revokedTokens }: ExecServerConfig): string | null {
  return revokedTokens === '' || wsAuth === 'signed-bearer-token'
    ? null
    : '`--revoked-tokens` requires `--ws-auth signed-bearer-token`: only signed tokens have ids';
}

function consoleProblem(config: ExecServerConfig, address: ListenAddress): string | null {
  if (!config.console) return null;
  if (address.kind !== 'websocket') {
    return '`--console` needs a `ws://` or `wss://` listener, which browsers can reach; `exec-server console -E URL` serves a console for any server';
  }
  // A web page whose name leads to this machine would be a page of the console.
  return config.allowedHost.split(',').some((name) => name.trim() === '*')
    ? '`--console` needs the names of this server: replace `*` in `--allowed-host` by them'
    : null;
}

function metricsProblem({ metrics, metricsListen, metricsTokenFile }: ExecServerConfig): string | null {
  return metricsTokenFile === '' || metrics || metricsListen !== ''
    ? null
    : '`--metrics-token-file` needs `--metrics` or `--metrics-listen`: nothing serves metrics';
}

function listenerProblem(config: ExecServerConfig, address: ListenAddress): string | null {
  if (address.kind === 'stdio' || address.kind === 'off') {
    return config.wsAuth === 'none'
      ? null
      : `WebSocket auth requires a WebSocket listener, not ${address.kind}`;
  }
  if (address.kind === 'unix' || isLoopback(address.host)) return null;
  if (config.wsAuth !== 'none' || config.insecureNoAuth) return null;
  // A required client certificate identifies the client as well as a token does.
  if (address.secure && config.tlsClientCa !== '') return null;
  return (
    `${config.listen} can be reached from other machines and would run programs for anyone: ` +
    'add `--ws-auth capability-token --ws-token-file FILE` (`exec-server token --out FILE` creates one), ' +
    'or listen on 127.0.0.1, or add `--insecure-no-auth` if a firewall or proxy restricts access'
  );
}

/**
 * Rejects with StartError when this system cannot enforce the configured limits; the server would have to refuse every program.
 * The memory of a single program can be limited without control groups.
 */
export async function refuseUnenforceableLimits(
  config: ExecServerConfig,
  groupsUnavailableReason?: () => string | null,
): Promise<void> {
  const configured = NEED_NATIVE.filter(({ key }) => config[key] > 0);
  if (configured[0] === undefined) return;
  if (nativeUnavailableReason(config.nativeSpawn) !== null) {
    throw new StartError(
      `${configured[0].flag} cannot be enforced: it needs native starts (nativeSpawn), which are not available on this system`,
    );
  }
  const inGroups = NEED_GROUPS.find((option) => configured.includes(option));
  const reason = inGroups === undefined ? null : await (groupsUnavailableReason ?? controlGroupsReason)();
  if (inGroups === undefined || reason === null) return;
  throw new StartError(
    `${inGroups.flag} cannot be enforced: ${reason}. It needs a cgroup v2 with the controllers memory, pids and cpu that is delegated to the ` +
      'server: start it as a unit of systemd (`systemd-run --user --scope -p Delegate=yes exec-server ...`), or leave the option out',
  );
}

interface LimitOption {
  readonly key: keyof ExecServerConfig &
    `max${'Process' | 'Session'}${'MemoryBytes' | 'Pids' | 'CpuPercent'}`;
  readonly flag: string;
}

const NEED_GROUPS: readonly LimitOption[] = [
  { key: 'maxProcessPids', flag: '--max-process-pids' },
  { key: 'maxProcessCpuPercent', flag: '--max-process-cpu-percent' },
  { key: 'maxSessionMemoryBytes', flag: '--max-session-memory-bytes' },
  { key: 'maxSessionPids', flag: '--max-session-pids' },
  { key: 'maxSessionCpuPercent', flag: '--max-session-cpu-percent' },
];

const NEED_NATIVE: readonly LimitOption[] = [
  { key: 'maxProcessMemoryBytes', flag: '--max-process-memory-bytes' },
  ...NEED_GROUPS,
];

/** Loads the code of control groups only where a limit needs them. */
async function controlGroupsReason(): Promise<string | null> {
  const { controlGroupsUnavailableReason } = await import('../process/resources/control-groups.ts');
  return controlGroupsUnavailableReason();
}

/**
 * Reads the minimum sandbox, which applies to every request, from a file with a `sandbox` object in JSON. Null without a file.
 * Throws StartError when the file is not usable.
 */
export function readMinSandbox(path: string): SandboxContext | null {
  if (path === '') return null;
  try {
    const sandbox = validateParams(Sandbox(), JSON.parse(readFileSync(path, 'utf8')));
    // Fails for a sandbox whose meaning depends on the request.
    policyOf(sandbox, { cwd: null, tmpdir: process.env.TMPDIR });
    return sandbox;
  } catch (error) {
    const cause = (error as Error).message.replace(/^params/, 'the object');
    throw new StartError(
      `--min-sandbox ${path}: ${cause}; the file must contain a sandbox object as in process/start, in JSON`,
    );
  }
}

/** The TLS files of a listener; null for one without TLS. Throws StartError when settings and address contradict each other. */
export function tlsFilesOf(
  { tlsCert, tlsKey, tlsClientCa, listen }: ExecServerConfig,
  address: SocketAddress | UnixAddress,
): TlsFiles | null {
  const secure = address.kind === 'websocket' && address.secure;
  if (!secure) {
    if (tlsCert === '' && tlsKey === '' && tlsClientCa === '') return null;
    // Ignoring the TLS settings would expose a server that its operator believes protected.
    throw new StartError(`TLS settings need \`--listen wss://IP:PORT\`; \`${listen}\` has no TLS`);
  }
  if (tlsCert === '' || tlsKey === '') {
    throw new StartError(`\`${listen}\` needs \`--tls-cert FILE\` and \`--tls-key FILE\``);
  }
  return { cert: tlsCert, key: tlsKey, clientCa: tlsClientCa === '' ? null : tlsClientCa };
}
