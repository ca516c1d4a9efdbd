import type { CallOptions, EnvironmentInfo } from '../backend.ts';
import type { Activity } from '../connection/activity.ts';
import { CallLimit } from '../connection/call-limit.ts';
import type { Link } from '../connection/link.ts';
import { requestAttach } from './attach-requests.ts';
import type { ProcessRoutes } from './process-routes.ts';
import type { ProcessHost } from './remote-process.ts';

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
      try {
        await limit.race(requestAttach(() => host.usableLink(limit.signal), params, received));
      } finally {
        limit.end();
      }
    },
  };
}
