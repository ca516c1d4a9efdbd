import { RpcError } from '../protocol/errors.ts';
import { type CallParamsOf, METHODS, type Method, type ParamsOf } from '../protocol/registry.ts';
import { Sandbox, type SandboxContext } from '../protocol/sandbox.ts';
import { validateParams } from '../protocol/validate.ts';
import { ClientError } from './errors.ts';

/**
 * Validates params and fills in the defaults, as a server does. Throws the error that a server would answer with.
 */
export function checkedParams<M extends Method>(method: M, params: CallParamsOf<M>): ParamsOf<M> {
  return asAnswered(() => validateParams(METHODS[method].params, params) as ParamsOf<M>);
}

/** Validates a sandbox as a server does; null means none. Throws the error that a server would answer with. */
export function checkedSandbox(sandbox: unknown): SandboxContext | null {
  return sandbox == null ? null : asAnswered(() => validateParams(Sandbox(), sandbox));
}

function asAnswered<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    throw new ClientError('server', error.message, { code: error.code });
  }
}
