import type { TransportSource } from '../client/client-core.ts';
import { ClientError } from '../client/errors.ts';
import { MAX_ENVIRONMENTS } from './limits.ts';

/** How to connect to an environment. */
export type EnvironmentTransport = WebSocketTarget | CommandTarget | OpenerTarget;

/** A listening server. A lost connection resumes the session; when that fails, the next use opens a new session. */
export interface WebSocketTarget {
  readonly type: 'websocket';
  /** `ws:` or `wss:`. With any other URL the environment fails on use. */
  readonly url: string;
  /** Sent as a bearer token with every connection. */
  readonly authToken?: string | null;
  readonly connectTimeoutMs?: number;
  readonly initializeTimeoutMs?: number;
  /** How long to try to resume the session after a loss. Default: the setting of the manager, else 25 s. */
  readonly recoveryWindowMs?: number | 'none';
}

/** A program that serves on its stdin and stdout. The first use starts it. After its exit only `restart` does. */
export interface CommandTarget {
  readonly type: 'stdio';
  readonly program: string;
  readonly args?: readonly string[];
  /** Variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string | null;
  readonly initializeTimeoutMs?: number;
}

/** Connections that the caller opens, such as those through a relay. */
export interface OpenerTarget extends TransportSource {
  readonly type: 'opener';
  readonly connectTimeoutMs?: number;
  readonly initializeTimeoutMs?: number;
  /** How long to try to resume the session after a loss. Default: the setting of the manager, else 25 s. */
  readonly recoveryWindowMs?: number | 'none';
}

/** One environment of a provider. */
export interface ProvidedEnvironment {
  readonly id: string;
  readonly transport: EnvironmentTransport;
  readonly requiredSkills?: readonly string[];
}

/** The environments of a provider, in the order to list them. */
export interface ProvidedEnvironments {
  readonly environments: readonly ProvidedEnvironment[];
  /** The id of the default environment. Null: there is none, and every use must name an id. */
  readonly default: string | null;
  /** Whether this machine is an environment, with the id `local`. */
  readonly includeLocal: boolean;
}

/** A source of environments. It opens no connection. */
export interface EnvironmentProvider {
  snapshot(): Promise<ProvidedEnvironments>;
}

/** The id of this machine. */
export const LOCAL_ENVIRONMENT_ID = 'local';

/** Validates the environments of a provider. Throws for the first error. */
export function validateProvided({
  environments,
  default: defaultId,
  includeLocal,
}: ProvidedEnvironments): void {
  const ids = new Set<string>(includeLocal ? [LOCAL_ENVIRONMENT_ID] : []);
  if (ids.size + environments.length > MAX_ENVIRONMENTS) throw tooMany();
  for (const { id } of environments) {
    validateId(id);
    if (ids.has(id)) {
      throw new ClientError('config', `there are two environments with the id '${id}'`, {
        hint: 'ids must differ',
      });
    }
    ids.add(id);
  }
  if (defaultId !== null && !ids.has(defaultId)) {
    throw new ClientError('config', `the default environment '${defaultId}' does not exist`, {
      hint: `the environments are ${[...ids].join(', ') || 'none'}`,
    });
  }
}

/** Validates the id of an environment other than this machine. */
export function validateId(id: string): void {
  if (id === '')
    throw new ClientError('config', 'an environment has an empty id', { hint: 'give it a name' });
  if (id === LOCAL_ENVIRONMENT_ID) {
    throw new ClientError('config', `the environment id '${id}' is reserved for this machine`, {
      hint: 'choose another one',
    });
  }
}

export function tooMany(): ClientError {
  return new ClientError('config', `there are more than ${MAX_ENVIRONMENTS} environments`, {
    hint: 'add an environment under an existing id to replace that one',
  });
}
