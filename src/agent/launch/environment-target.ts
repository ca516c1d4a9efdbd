import { type CallOptions, ClientError, type Environment } from '../../environment/index.ts';
import type { ExecTarget } from './request.ts';

/** Options of {@link environmentTarget}. */
export interface TargetOptions extends CallOptions {
  /** The default working directory. Default: the folder that the executor reports. */
  readonly cwd?: string;
}

/** Returns a target that runs commands in an environment. Asks the executor for its shell, and connects if necessary. */
export async function environmentTarget(
  environment: Environment,
  { cwd, ...call }: TargetOptions = {},
): Promise<ExecTarget> {
  const info = await environment.info(call);
  const folder = cwd ?? info.cwd;
  if (folder === undefined || folder === null) {
    throw new ClientError('config', `environment '${environment.id}' reports no folder to run commands in`, {
      hint: 'set `cwd`',
    });
  }
  const { id, backend, processes } = environment;
  return { id, backend, processes, shell: info.shell, cwd: folder };
}
