import { invalidRequest, printable } from '../../protocol/errors.ts';
import type { Handlers } from '../../rpc/router.ts';
import { bytesParam } from './params.ts';
import { writeStdin } from './process-handlers.ts';
import type { HandlerServices } from './services.ts';
import { startProcess } from './start-process.ts';
import { checkCommand } from './start-request.ts';

type LegacyMethod = Extract<keyof Handlers, `command/${string}`>;

/** The older `command/exec` methods. They work on the same processes; a status that they have no result for is an error. */
export function legacyHandlers(services: HandlerServices): Pick<Handlers, LegacyMethod> {
  const { processes } = services;
  return {
    'command/exec': async (params) => {
      const start = checkCommand(params, services.config);
      await startProcess(services, start);
      return { processId: start.processId, running: true, exitCode: null, stdout: null, stderr: null };
    },

    'command/exec/write': async (params, context) => {
      const { processId } = params;
      const bytes = bytesParam(params, 'chunk', context.bulk);
      const process = await processes.find(processId, 'write');
      if (process === undefined) throw invalidRequest(`unknown process id ${printable(processId)}`);
      const status = await writeStdin(process, bytes, null, context);
      if (status !== 'accepted') throw invalidRequest(`stdin of process ${printable(processId)} is closed`);
      return { accepted: true };
    },

    'command/exec/terminate': async ({ processId }) => ({
      running: await processes.terminate(processId, { type: 'force' }),
    }),
  };
}
