import type { Handlers } from '../../rpc/router.ts';
import type { HandlerServices } from './services.ts';

type EnvironmentMethod = Extract<keyof Handlers, `environment/${string}`>;

/** What the server tells about itself. */
export function environmentHandlers(services: HandlerServices): Pick<Handlers, EnvironmentMethod> {
  return {
    'environment/info': async () => {
      await services.sandboxEnforcer.probe();
      return services.environmentInfo();
    },
    'environment/status': () => ({ status: 'ready' }),
  };
}
