import { isObject } from '../base/is-object.ts';
import { kindOf } from '../client/connection/option-checks.ts';
import type { TransportSource } from '../client/connection/session-options.ts';
import { ClientError } from '../client/errors.ts';
import { MAX_ENVIRONMENTS, MAX_TIMEOUT_SEC } from './limits.ts';

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
  /** Names of installed skills without which the environment is not ready. A plugin's skill has its prefix: `plugin:skill`. */
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
  for (const { id, transport, requiredSkills } of environments) {
    validateId(id);
    validateTransport(id, transport);
    validateRequiredSkills(id, requiredSkills);
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
export function validateId(id: unknown): void {
  if (typeof id !== 'string') {
    throw new ClientError('config', `an environment id is ${kindOf(id)}, not a string`, {
      hint: 'give it a name',
    });
  }
  if (id === '')
    throw new ClientError('config', 'an environment has an empty id', { hint: 'give it a name' });
  if (id === LOCAL_ENVIRONMENT_ID) {
    throw new ClientError('config', `the environment id '${id}' is reserved for this machine`, {
      hint: 'choose another one',
    });
  }
}

/**
 * Validates the form of a transport, for callers without types. The syntax of a URL is not checked: the environment fails on use.
 * Messages contain no values, because a transport may contain a token.
 */
export function validateTransport(id: string, transport: unknown): void {
  const invalid = (problem: string, hint: string) =>
    new ClientError('config', `the transport of environment '${id}' is invalid: ${problem}`, { hint });
  if (typeof transport !== 'object' || transport === null) {
    throw invalid(`it is ${kindOf(transport)}`, 'pass an object with a type');
  }
  const members = transport as Readonly<Record<string, unknown>>;
  const { type } = members;
  if (typeof type !== 'string' || !Object.hasOwn(SHAPES, type)) {
    throw invalid("its 'type' is unknown", `use one of ${Object.keys(SHAPES).join(', ')}`);
  }
  for (const [key, { needed, rule, test }] of Object.entries({ ...SHAPES[type], ...TIMEOUTS })) {
    const value = members[key];
    if (value === undefined ? needed : !test(value)) {
      throw invalid(`'${key}' is ${kindOf(value)}`, `'${key}' must be ${rule}`);
    }
  }
}

/** A member of a transport: whether it must be there, and what it must be. */
interface MemberRule {
  readonly needed: boolean;
  readonly rule: string;
  readonly test: (value: unknown) => boolean;
}

const isText = (value: unknown) => typeof value === 'string';
const TEXT = {
  needed: false,
  rule: 'a string',
  test: (value: unknown) => value === null || isText(value),
};
const TIMEOUT = {
  needed: false,
  rule: `a number of milliseconds from 0 to ${MAX_TIMEOUT_SEC * 1000}`,
  test: (value: unknown) => typeof value === 'number' && value >= 0 && value <= MAX_TIMEOUT_SEC * 1000,
};
const RECOVERY_WINDOW = {
  needed: false,
  rule: `${TIMEOUT.rule}, or 'none'`,
  test: (value: unknown) => value === 'none' || TIMEOUT.test(value),
};
const TIMEOUTS = { connectTimeoutMs: TIMEOUT, initializeTimeoutMs: TIMEOUT };
const SHAPES: Readonly<Record<string, Readonly<Record<string, MemberRule>>>> = {
  websocket: {
    url: {
      needed: true,
      rule: 'a URL: write ws://HOST:PORT or wss://HOST',
      test: (value) => typeof value === 'string' && !/^(?:none)?$/i.test(value.trim()),
    },
    authToken: TEXT,
    recoveryWindowMs: RECOVERY_WINDOW,
  },
  stdio: {
    program: {
      needed: true,
      rule: 'the name or path of a program',
      test: (value) => typeof value === 'string' && value.trim() !== '',
    },
    args: {
      needed: false,
      rule: 'a list of strings',
      test: (value) => Array.isArray(value) && value.every(isText),
    },
    env: {
      needed: false,
      rule: 'an object of strings',
      test: (value) => isObject(value) && Object.values(value).every(isText),
    },
    cwd: TEXT,
  },
  opener: {
    open: {
      needed: true,
      rule: 'a function that opens a connection',
      test: (value) => typeof value === 'function',
    },
    resumable: { needed: true, rule: 'a boolean', test: (value) => typeof value === 'boolean' },
    recoveryWindowMs: RECOVERY_WINDOW,
  },
};

function validateRequiredSkills(id: string, skills: unknown): void {
  if (skills === undefined) return;
  if (Array.isArray(skills) && skills.every((name) => isText(name) && name.trim() !== '')) return;
  throw new ClientError('config', `the required skills of environment '${id}' are not a list of names`, {
    hint: 'pass a list of strings that are not blank',
  });
}

export function tooMany(): ClientError {
  return new ClientError('config', `there are more than ${MAX_ENVIRONMENTS} environments`, {
    hint: 'add an environment under an existing id to replace that one',
  });
}
