import { invalidRequest } from '../../protocol/errors.ts';
import type { Handlers } from '../../rpc/router.ts';

/** The `tcp/*` and `ports/*` methods. */
export function tcpHandlers(): Pick<Handlers, Extract<keyof Handlers, `tcp/${string}` | `ports/${string}`>> {
  const notYet = () => {
    throw invalidRequest('not built yet');
  };
  return {
    'tcp/connect': notYet,
    'tcp/data': notYet,
    'tcp/end': notYet,
    'tcp/close': notYet,
    'tcp/consumed': notYet,
    'ports/watch': notYet,
    'ports/unwatch': notYet,
  };
}
