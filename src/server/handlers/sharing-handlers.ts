import { invalidRequest } from '../../protocol/errors.ts';
import type { Handlers } from '../../rpc/router.ts';
import type { HandlerServices } from './services.ts';

type SharingMethod = 'process/attach' | 'process/detach' | 'process/screen';

/** The methods by which several clients share a process. */
export function sharingHandlers({ processes }: HandlerServices): Pick<Handlers, SharingMethod> {
  return {
    'process/attach': async (params) => {
      const shared = await processes.wanted(params);
      const { afterSeq } = params;
      // A reader may be ahead of a process: another one may have had its name.
      const nextSeq = afterSeq === undefined ? null : Math.min(afterSeq + 1, shared.nextSeq);
      const follower = processes.attach(shared, params, nextSeq);
      const { ref, name, process } = shared;
      return {
        processId: follower.processId,
        ref,
        ...(name !== null && { name }),
        role: shared.roleOf(follower),
        tty: process !== null && process.size !== null,
        ...(process !== null && process.size !== null && { size: process.size }),
        nextSeq: follower.stream.nextSeq,
        exitCode: shared.exit?.exitCode ?? null,
        closed: shared.end !== null,
      };
    },

    'process/detach': ({ processId }) => {
      processes.detach(processId);
      return {};
    },

    'process/screen': () => {
      throw invalidRequest('not built yet');
    },
  };
}
