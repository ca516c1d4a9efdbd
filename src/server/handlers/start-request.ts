import { isAbsolute } from 'node:path';
import { pathFromUri } from '../../files/path-uri.ts';
import { childEnvironment, type EnvMetadata, type EnvPolicy } from '../../process/env-policy.ts';
import { ProcessError } from '../../process/errors.ts';
import type { ChildIo, SpawnSpec } from '../../process/spawn/spawner.ts';
import { invalidParams, invalidRequest } from '../../protocol/errors.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import type { ExecServerConfig } from '../config.ts';
import { loginShell } from '../environment-info.ts';

type StartParams = ParamsOf<'process/start'>;
type FlatParams = Exclude<StartParams, { direct: unknown } | { prepared: unknown }>;

/** A start in one shape, whatever form it was asked in. */
export interface StartRequestParts {
  readonly processId: string;
  readonly argv: readonly string[];
  readonly arg0: string | null | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly io: ChildIo;
  readonly envPolicy: EnvPolicy | null;
  readonly metadata: EnvMetadata | null;
}

/** Reduces the three request forms to one. Refuses the forms that are switched off and the options that cannot be honoured. */
export function startRequestParts(params: StartParams, config: ExecServerConfig): StartRequestParts {
  if ('prepared' in params) {
    if (!config.allowPreparedExec)
      throw invalidRequest('prepared starts are switched off (allowPreparedExec)');
    const { processId, request, io } = params.prepared;
    return { processId, ...request, arg0: request.arg0, io: childIo(io), envPolicy: null, metadata: null };
  }
  if (!config.allowDirectExec) throw invalidRequest('direct starts are switched off (allowDirectExec)');
  if ('direct' in params) {
    const { direct } = params;
    return { ...direct, arg0: direct.arg0, io: childIo(direct.io), envPolicy: null, metadata: null };
  }
  return flatParts(params);
}

/** What the operating system is asked to run. Throws on an empty command and on a working directory that is no path here. */
export function spawnSpec(parts: StartRequestParts, options: { readonly nativePaths: boolean }): SpawnSpec {
  const cwd = options.nativePaths && isAbsolute(parts.cwd) ? parts.cwd : pathFromUri(parts.cwd);
  const [program] = parts.argv;
  if (program === undefined) throw new ProcessError('emptyArgv', 'argv must not be empty');
  const env = childEnvironment(
    { env: parts.env, policy: parts.envPolicy, metadata: parts.metadata },
    process.env,
  );
  if (parts.io.kind === 'pty') env.SHELL ??= loginShell().path;
  return { program, argv: [parts.arg0 ?? program, ...parts.argv.slice(1)], cwd, env, io: parts.io };
}

/** Terminal size when the client gives none. */
export const DEFAULT_TERMINAL_SIZE = { rows: 24, cols: 80 } as const;

function flatParts(params: FlatParams): StartRequestParts {
  refuseUnsupported(params);
  const io: ChildIo = params.tty
    ? { kind: 'pty', ...(params.size ?? DEFAULT_TERMINAL_SIZE) }
    : { kind: 'pipe', stdin: params.pipeStdin ? 'open' : 'closed' };
  const { processId, argv, arg0, cwd, env, envPolicy, metadata } = params;
  return { processId, argv, arg0, cwd, env, io, envPolicy: envPolicy ?? null, metadata: metadata ?? null };
}

/** A confinement that cannot be enforced must not be dropped silently. */
function refuseUnsupported(params: FlatParams): void {
  if (params.sandbox != null) {
    throw invalidParams('params.sandbox: this server cannot enforce a sandbox; send null to run without one');
  }
  if (params.networkProxy != null) {
    throw invalidParams(
      'params.networkProxy: this server has no network proxy; send null to run without one',
    );
  }
}

function childIo(
  io: { type: 'pty'; rows: number; cols: number } | { type: 'pipe'; stdin: 'open' | 'closed' },
): ChildIo {
  return io.type === 'pty'
    ? { kind: 'pty', rows: io.rows, cols: io.cols }
    : { kind: 'pipe', stdin: io.stdin };
}
