import { invalidRequest } from '../../protocol/errors.ts';
import type { Handlers } from '../../rpc/router.ts';

/** The methods by which several clients share a process. */
export function sharingHandlers(): Pick<Handlers, 'process/attach' | 'process/detach' | 'process/screen'> {
  const notYet = () => {
    throw invalidRequest('not built yet');
  };
  return { 'process/attach': notYet, 'process/detach': notYet, 'process/screen': notYet };
}
