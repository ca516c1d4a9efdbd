import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type { CallOptions, EnvironmentInfo } from '../backend.ts';
import type { Activity } from '../connection/activity.ts';
import { CallLimit } from '../connection/call-limit.ts';
import type { Link } from '../connection/link.ts';
import type { Capabilities } from '../connection/server-messages.ts';
import type { Attached } from '../connection/sharing-messages.ts';
import { requestAttach } from './attach-requests.ts';
import type { LogStart } from './event-log.ts';
import type { ProcessRoutes } from './process-routes.ts';
import type { RemoteProcess } from './remote-process.ts';

/** The part of a client that a process needs. */
export interface ProcessHost {
  readonly capabilities: Capabilities;
  /** Counts what the program waits for. */
  readonly activity: Activity;
  call<M extends Method>(method: M, params: CallParamsOf<M>, options?: CallOptions): Promise<ResultOf<M>>;
  /** Returns the open connection; waits during a recovery. */
  usableLink(): Promise<Link>;
  /** Removes the process from the routes. Returns whether another handle follows the same process. */
  unregister(process: RemoteProcess): boolean;
  /** Sends `process/attach`, again if the connection is lost. Calls `received` as soon as the answer arrives. */
  attach(
    params: CallParamsOf<'process/attach'> & { readonly ref: string },
    received: (attached: Attached) => void,
    options: CallOptions,
  ): Promise<void>;
  /** Sends `process/detach` when the attaches under way have settled, unless a handle follows the process then. */
  detach(process: RemoteProcess, options?: CallOptions): Promise<void>;
}

/** Where following a process begins. */
export interface ProcessStart extends LogStart {
  /** The exit code, if the process has exited already. */
  readonly exitCode: number | null;
  /** `argv[0]` of a process that this client starts. */
  readonly program?: string;
  /** False when it is known that the process has no stdin. */
  readonly hasStdin?: boolean;
  /** Whether this client started the process, rather than attached to it. */
  readonly startedHere: boolean;
}

export const FROM_THE_BEGINNING: ProcessStart = {
  afterSeq: 0,
  screen: null,
  exitCode: null,
  startedHere: true,
};

/** The part of a client that starts processes and attaches to them. */
export interface ClientHost extends Pick<ProcessHost, 'capabilities' | 'call'> {
  /** The server's description of itself. */
  info(options: CallOptions): Promise<EnvironmentInfo>;
  readonly routes: ProcessRoutes;
  readonly activity: Activity;
  /** Returns the open connection; waits during a recovery. */
  usableLink(signal?: AbortSignal): Promise<Link>;
}

/** The part of a client that its processes need. */
export function processHost(host: ClientHost): ProcessHost {
  return {
    get capabilities() {
      return host.capabilities;
    },
    activity: host.activity,
    call: (method, params, options) => host.call(method, params, options),
    usableLink: () => host.usableLink(),
    unregister: (process) => host.routes.unregister(process),
    async attach(params, received, options) {
      const limit = new CallLimit('`process/attach`', options);
      const { signal } = limit;
      const request = () => requestAttach(() => host.usableLink(signal), params, received);
      try {
        await limit.race(host.routes.attachOrder.run('attach', [params.ref], request, signal));
      } finally {
        limit.end();
      }
    },
    async detach({ processId, ref, name }, options = {}) {
      const limit = new CallLimit('`process/detach`', options);
      const { signal } = limit;
      const request = async () => {
        if (host.routes.attachmentOf(processId) !== undefined) return;
        await host.call('process/detach', { processId }, { signal });
      };
      try {
        await limit.race(host.routes.attachOrder.run('detach', [processId, ref, name], request, signal));
      } finally {
        limit.end();
      }
    },
  };
}
