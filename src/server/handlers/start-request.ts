import { isUtf8 } from 'node:buffer';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { type TraceContext, traceEnvironment } from '../../observability/trace-context.ts';
import { ioOf, type ProgramRequest, spawnSpecOf } from '../../process/program-request.ts';
import type { RequestedLimits } from '../../process/resources/resource-limits.ts';
import { type LoginCommand, loginCommandOf } from '../../process/shell-state/login-command.ts';
import type { ChildIo, SpawnSpec } from '../../process/spawn/spawner.ts';
import { internalError, invalidParams, invalidRequest, printable } from '../../protocol/errors.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import type { SandboxContext } from '../../protocol/sandbox.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { HELD_WINDOW_MAX_BYTES } from '../limits.ts';
import type { Dialect } from '../sessions/process-events.ts';
import { uriOfPath } from './params.ts';

type StartParams = ParamsOf<'process/start'>;
type FlatParams = Exclude<StartParams, { direct: unknown } | { prepared: unknown }>;

/** A start request that has been checked. Both dialects and all request forms are reduced to it. */
export interface CheckedStart extends StartOptions {
  readonly processId: string;
  readonly spec: SpawnSpec;
  readonly dialect: Dialect;
  /** Lowers the retained bytes below the configured limit. */
  readonly outputBytesCap: number | null;
}

/** How long a process lives. */
type Lifetime =
  | { readonly type: 'session' }
  | { readonly type: 'detached'; readonly retainMs?: number | undefined };

interface StartOptions {
  /** Unique among the owner's running processes. */
  readonly name: string | null;
  readonly lifetime: Lifetime;
  /** How much output the client accepts before it reports it as used; null is no limit. */
  readonly windowBytes: number | null;
  /** Whether the program waits instead of losing output that the client has not used. */
  readonly holdOutput: boolean;
  /** How the client wants the process recorded; null when it does not. */
  readonly record: { readonly input: boolean } | null;
  /** The limits that the client requests. The server's own limits apply in any case. */
  readonly limits: RequestedLimits | null;
  /** The sandbox that the client requests. The server's minimum sandbox applies in any case. */
  readonly sandbox: SandboxContext | null;
  readonly networkProxy: NetworkProxyLaunch | null;
  /** Whether the sandboxed program may reach its proxy and no other part of the network. */
  readonly enforceManagedNetwork: boolean;
  /** Set for a command that may run with the captured state of its login shell instead of logging in itself. */
  readonly login: LoginCommand | null;
}

/** The options of a request that sets none of them. */
const DEFAULT_START_OPTIONS: StartOptions = {
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

/** A `process/start` before its environment and working directory are resolved. */
interface StartForm extends StartOptions, ProgramRequest {
  readonly processId: string;
  /** A `file:` URI, or a native path where `acceptNativePaths` is set. */
  readonly cwd: string;
}

/**
 * Checks a `process/start` and resolves its environment and working directory. Throws RpcError for forms that are switched off, for
 * options that cannot be honoured, and for a working directory that is not a path on this machine; ProcessError for an empty command.
 */
export function checkStart(
  params: StartParams,
  config: ExecServerConfig,
  trace: TraceContext | null,
): CheckedStart {
  const form = formOf(params, config);
  const { processId, name, lifetime, windowBytes, holdOutput, record, limits, sandbox, networkProxy } = form;
  const cwd = workingDirectory(uriOfPath(form.cwd, config));
  const env = trace === null ? form.env : { ...traceEnvironment(trace), ...form.env };
  const spec = spawnSpecOf({ ...form, env }, cwd);
  return {
    processId,
    spec,
    dialect: 'process',
    outputBytesCap: null,
    name,
    lifetime,
    windowBytes,
    holdOutput,
    record,
    limits,
    sandbox,
    networkProxy,
    enforceManagedNetwork: form.enforceManagedNetwork,
    login: form.login,
  };
}

/** Checks a `command/exec`. Throws like {@link checkStart}. */
export function checkCommand(params: ParamsOf<'command/exec'>, config: ExecServerConfig): CheckedStart {
  requireDirectExec(config);
  const { processId, argv, arg0, cwd, env, tty, outputBytesCap = null } = params;
  const program = { argv, arg0, env, io: ioOf({ tty }), envPolicy: null, metadata: null };
  const spec = spawnSpecOf(program, workingDirectory(uriOfPath(cwd, { acceptNativePaths: true })));
  return { ...DEFAULT_START_OPTIONS, processId, spec, dialect: 'command', outputBytesCap };
}

function formOf(params: StartParams, config: ExecServerConfig): StartForm {
  if ('prepared' in params) {
    if (!config.allowPreparedExec) {
      throw invalidRequest('prepared starts are switched off (allowPreparedExec)');
    }
    return nestedForm(params.prepared, params.prepared.request);
  }
  requireDirectExec(config);
  if ('direct' in params) {
    return nestedForm(params.direct, params.direct);
  }
  return flatForm(params);
}

function requireDirectExec(config: ExecServerConfig): void {
  if (!config.allowDirectExec) throw invalidRequest('direct starts are switched off (allowDirectExec)');
}

type NestedParams = Extract<StartParams, { prepared: unknown }>['prepared'];

function nestedForm(
  form: Omit<NestedParams, 'request'>,
  { argv, arg0, cwd, env }: NestedParams['request'],
): StartForm {
  const { processId, io, limits = null, sandbox = null } = form;
  const childIo: ChildIo =
    io.type === 'pty' ? { kind: 'pty', rows: io.rows, cols: io.cols } : { kind: 'pipe', stdin: io.stdin };
  const program = { argv, arg0, env, io: childIo, envPolicy: null, metadata: null };
  return { ...DEFAULT_START_OPTIONS, ...program, ...sharingOf(form), processId, cwd, limits, sandbox };
}

type SharingOption = 'name' | 'lifetime' | 'windowBytes' | 'holdOutput' | 'record';

function sharingOf({
  name = null,
  lifetime,
  windowBytes = null,
  holdOutput,
  record,
}: Pick<FlatParams, SharingOption>): Pick<StartOptions, SharingOption> {
  if (holdOutput && (windowBytes === null || windowBytes > HELD_WINDOW_MAX_BYTES)) {
    throw invalidParams(`params.holdOutput: needs windowBytes of at most ${HELD_WINDOW_MAX_BYTES}`);
  }
  return {
    name,
    lifetime: lifetime ?? DEFAULT_START_OPTIONS.lifetime,
    windowBytes,
    holdOutput: holdOutput ?? false,
    record: record === true ? { input: false } : record || null,
  };
}

function flatForm(params: FlatParams): StartForm {
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
  const sharing = sharingOf(params);
  return {
    ...program,
    ...sharing,
    processId,
    cwd,
    limits,
    sandbox,
    login,
    networkProxy,
    enforceManagedNetwork,
  };
}

/** The working directory as a native path. It must be UTF-8, because programs are started with text arguments. */
function workingDirectory(uri: string): string {
  try {
    const bytes = Buffer.from(pathFromUri(uri), 'latin1');
    if (isUtf8(bytes)) return bytes.toString();
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    throw invalidParams(`params.cwd: ${printable(error.message)}`);
  }
  throw internalError('params.cwd: a working directory whose bytes are not UTF-8 is not supported');
}
