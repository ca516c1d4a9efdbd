import type { Handlers } from '../../rpc/router.ts';
import { screenResult } from './screen-result.ts';
import type { HandlerServices } from './services.ts';

type SharingMethod = 'process/attach' | 'process/detach' | 'process/screen';

/** The methods by which several clients share a process. */
export function sharingHandlers({ processes }: HandlerServices): Pick<Handlers, SharingMethod> {
  return {
    'process/attach': async (params, { maxResultBytes }) => {
      const wanted = await processes.wanted(params);
      const process = await wanted.manager.get(wanted.key);
      const screen = params.screen
        ? screenResult(await process.screen(processes.ended), maxResultBytes())
        : null;
      // The process may be gone by now.
      const shared = screen === null ? wanted : await processes.wanted({ ref: wanted.ref });
      // What follows the screen continues it.
      const afterSeq = screen?.seq ?? params.afterSeq;
      // A reader may be ahead of a process: another one may have had its name.
      const nextSeq = afterSeq === undefined ? null : Math.min(afterSeq + 1, shared.nextSeq);
      const follower = processes.attach(shared, params, nextSeq);
      const { ref, name } = shared;
      return {
        processId: follower.processId,
        ref,
        ...(name !== null && { name }),
        role: shared.roleOf(follower),
        tty: process.size !== null,
        ...(process.size !== null && { size: process.size }),
        nextSeq: follower.stream.nextSeq,
        exitCode: shared.exit?.exitCode ?? null,
        closed: shared.end !== null,
        ...(screen !== null && { screen }),
      };
    },

    'process/detach': ({ processId }) => {
      processes.detach(processId);
      return {};
    },

    'process/screen': async ({ processId }, { park, maxResultBytes }) => {
      const process = await processes.get(processId, 'read');
      park();
      return screenResult(await process.screen(processes.ended), maxResultBytes());
    },
  };
}
