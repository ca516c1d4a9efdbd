import { hostname } from 'node:os';
import type { NativePath } from '../../files/native-path.ts';
import { PathUriError, pathFromUri } from '../../files/path-uri.ts';
import { invalidParams, printable } from '../../protocol/errors.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import { encodeInTurns } from '../../rpc/encode-in-turns.ts';
import type { Handlers } from '../../rpc/router.ts';
import { uriOfPath } from './params.ts';
import type { HandlerServices } from './services.ts';

type EnvironmentMethod = Extract<keyof Handlers, `environment${'' | 'Config'}/${string}`>;

/** The methods that describe the server, its machine and the configuration files on it. */
export function environmentHandlers(services: HandlerServices): Pick<Handlers, EnvironmentMethod> {
  const { files, sandboxEnforcer, config } = services;
  return {
    'environment/info': async () => {
      await sandboxEnforcer.probe();
      return services.environmentInfo();
    },

    'environment/status': () => ({ status: 'ready' }),

    // Few clients call this, so its code is loaded on the first call.
    'environmentConfig/read': async (params, { maxResultBytes }) => {
      const { configPaths, requirementsPaths } = params;
      checkPaths(params);
      const cwd = localDirectory(uriOfPath(params.cwd, config));
      await files.changesDone();
      const { readExecutorConfig } = await import('../../files/executor-config/read-config.ts');
      const read = await readExecutorConfig(
        files.under({}, 'read'),
        { cwd, configPaths, requirementsPaths },
        { variables: process.env, signal: files.ended },
      );
      return encodeInTurns({ ...read, hostname: hostname() || null }, maxResultBytes());
    },
  };
}

/** Refuses the path of another operating system: it has no configuration on this machine. */
function localDirectory(uri: string): NativePath {
  try {
    return pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    throw invalidParams(`params.cwd: ${printable(error.message)}`);
  }
}

function checkPaths({ configPaths, requirementsPaths }: ParamsOf<'environmentConfig/read'>): void {
  if (configPaths.length + requirementsPaths.length === 0) {
    throw invalidParams('at least one config or requirements path is required');
  }
  if ([...configPaths, ...requirementsPaths].some((path) => path.length === 0)) {
    throw invalidParams('TOML paths must contain at least one key segment');
  }
}
