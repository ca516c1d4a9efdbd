import type { TransportSource } from '../client/client-core.ts';
import { ClientError } from '../client/errors.ts';
import { MAX_ENVIRONMENTS } from './limits.ts';

/** How an environment is reached. */
export type EnvironmentTransport = WebSocketTarget | CommandTarget | OpenerTarget;

/** A server that listens. After a loss the session is resumed; when that fails a new one is opened by the next use. */
export interface WebSocketTarget {
  readonly type: 'websocket';
  /** `ws:` or `wss:`; anything else makes the environment fail when it is used. */
  readonly url: string;
  /** Sent as a bearer token with every connection. */
  readonly authToken?: string | null;
  readonly connectTimeoutMs?: number;
  readonly initializeTimeoutMs?: number;
}

/** A program that serves on its stdin and stdout. It is started by the first use, and once it has ended by a restart only. */
export interface CommandTarget {
  readonly type: 'stdio';
  readonly program: string;
  readonly args?: readonly string[];
  /** Variables on top of this process's own. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string | null;
  readonly initializeTimeoutMs?: number;
}

/** Connections that somebody else knows how to open, such as those through a relay. */
export interface OpenerTarget extends TransportSource {
  readonly type: 'opener';
  readonly connectTimeoutMs?: number;
  readonly initializeTimeoutMs?: number;
}

/** One environment of a provider. */
export interface ProvidedEnvironment {
  readonly id: string;
  readonly transport: EnvironmentTransport;
  readonly requiredSkills?: readonly string[];
}

/** Everything that a provider knows, in the order in which it is to be offered. */
export interface ProvidedEnvironments {
  readonly environments: readonly ProvidedEnvironment[];
  /** Used where nothing else is asked for. Null: there is no default, and nothing runs without being asked for by id. */
  readonly default: string | null;
  /** Whether this machine is an environment, too, under the id `local`. */
  readonly includeLocal: boolean;
}

/** A source of environments. Asking it opens no connection. */
export interface EnvironmentProvider {
  snapshot(): Promise<ProvidedEnvironments>;
}

/** The id of this machine. */
export const LOCAL_ENVIRONMENT_ID = 'local';

/** Throws the first thing that is wrong with what a provider gave. */
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

/** Throws when an environment that is not this machine cannot have the id. */
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
    hint: 'an environment can be replaced by adding another one under its id',
  });
}
