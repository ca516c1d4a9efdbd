import { type CallOptions, ClientError, type Environment } from '../../environment/index.ts';
import type { ExecTarget } from './request.ts';

/** How an environment is used. */
export interface TargetOptions extends CallOptions {
  /** Where commands run that do not say where; by default the folder that the executor reports. */
  readonly cwd?: string;
}

/** An environment as a place to run commands in. Asks its executor for the shell, and connects for it if need be. */
export async function environmentTarget(
  environment: Environment,
  { cwd, ...call }: TargetOptions = {},
): Promise<ExecTarget> {
  const info = await environment.info(call);
  const folder = cwd ?? info.cwd;
  if (folder === undefined || folder === null) {
    throw new ClientError('config', `environment '${environment.id}' reports no folder to run commands in`, {
      hint: 'choose one as `cwd`',
    });
  }
  return { id: environment.id, backend: environment.backend, shell: info.shell, cwd: folder };
}
