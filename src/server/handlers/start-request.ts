import { isUtf8 } from 'node:buffer';
import { isAbsolute } from 'node:path';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { ioOf, type ProgramRequest, spawnSpecOf } from '../../process/program-request.ts';
import type { RequestedLimits } from '../../process/resources/resource-limits.ts';
import { type LoginCommand, loginCommandOf } from '../../process/shell-state/login-command.ts';
import type { ChildIo, SpawnSpec } from '../../process/spawn/spawner.ts';
import { internalError, invalidParams, invalidRequest, printable } from '../../protocol/errors.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import type { SandboxContext } from '../../protocol/sandbox.ts';
import type { ExecServerConfig } from '../config/config.ts';

type StartParams = ParamsOf<'process/start'>;
type FlatParams = Exclude<StartParams, { direct: unknown } | { prepared: unknown }>;

/** A start in one shape, whatever form it was asked in. */
export interface StartRequestParts extends ProgramRequest {
  readonly processId: string;
  /** A `file:` URI, or a native path where those are accepted. */
  readonly cwd: string;
  /** What the client wants the program held to. */
  readonly limits: RequestedLimits | null;
  /** What the client wants the program restricted to. */
  readonly sandbox: SandboxContext | null;
  readonly networkProxy: NetworkProxyLaunch | null;
  /** Whether a sandboxed program may use its proxy and nothing else of the network. */
  readonly enforceManagedNetwork: boolean;
  /** What it is for a login shell whose state may have been captured; null when it is something else. */
  readonly login: LoginCommand | null;
}

/** What only the flat form can express. */
const NOTHING_MORE = {
  networkProxy: null,
  enforceManagedNetwork: false,
  envPolicy: null,
  metadata: null,
  login: null,
} as const;

/** Reduces the three request forms to one. Refuses the forms that are switched off and the options that cannot be honoured. */
export function startRequestParts(params: StartParams, config: ExecServerConfig): StartRequestParts {
  if ('prepared' in params) {
    if (!config.allowPreparedExec)
      throw invalidRequest('prepared starts are switched off (allowPreparedExec)');
    const { processId, request, io, limits = null, sandbox = null } = params.prepared;
    return { ...NOTHING_MORE, ...request, processId, arg0: request.arg0, io: childIo(io), limits, sandbox };
  }
  if (!config.allowDirectExec) throw invalidRequest('direct starts are switched off (allowDirectExec)');
  if ('direct' in params) {
    const { direct } = params;
    const { arg0, io, limits = null, sandbox = null } = direct;
    return { ...NOTHING_MORE, ...direct, arg0, io: childIo(io), limits, sandbox };
  }
  return flatParts(params);
}

/** What the operating system is asked to run. Throws on an empty command and on a working directory that is no path here. */
export function spawnSpec(parts: StartRequestParts, options: { readonly nativePaths: boolean }): SpawnSpec {
  const cwd = options.nativePaths && isAbsolute(parts.cwd) ? parts.cwd : cwdFromUri(parts.cwd);
  return spawnSpecOf(parts, cwd);
}

/** The working directory as text: the system is asked in UTF-8 here. */
function cwdFromUri(uri: string): string {
  try {
    const bytes = Buffer.from(pathFromUri(uri), 'latin1');
    if (isUtf8(bytes)) return bytes.toString();
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    throw invalidParams(`params.cwd: ${printable(error.message)}`);
  }
  throw internalError('params.cwd: a working directory whose bytes are not UTF-8 is not supported');
}

function flatParts(params: FlatParams): StartRequestParts {
  const { processId, argv, arg0, cwd, env, envPolicy = null, metadata = null, limits = null } = params;
  const { sandbox = null, shellSnapshot = null } = params;
  const program = { argv, arg0, env, io: ioOf(params), envPolicy, metadata };
  const login = loginCommandOf(program, shellSnapshot);
  const { networkProxy = null, enforceManagedNetwork } = params;
  if (enforceManagedNetwork && sandbox === null) {
    throw invalidParams(
      'params.enforceManagedNetwork: only a sandbox can enforce it; send one, or leave it out',
    );
  }
  return { ...program, processId, cwd, limits, sandbox, login, networkProxy, enforceManagedNetwork };
}

function childIo(
  io: { type: 'pty'; rows: number; cols: number } | { type: 'pipe'; stdin: 'open' | 'closed' },
): ChildIo {
  return io.type === 'pty'
    ? { kind: 'pty', rows: io.rows, cols: io.cols }
    : { kind: 'pipe', stdin: io.stdin };
}
