import { RpcError } from '../protocol/errors.ts';
import { type CallParamsOf, METHODS, type Method, type ParamsOf } from '../protocol/registry.ts';
import { validateParams } from '../protocol/validate.ts';
import { ClientError } from './errors.ts';

/** Params as a server sees them: checked, with the defaults filled in. Throws what a server would answer. */
export function checkedParams<M extends Method>(method: M, params: CallParamsOf<M>): ParamsOf<M> {
  try {
    return validateParams(METHODS[method].params, params) as ParamsOf<M>;
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    throw new ClientError('server', error.message, { code: error.code });
  }
}
