import type { Method, Notification } from './registry.ts';

// This table is apart from the registry, because clients need it and do not load the schemas.

/**
 * The base64 member of a message that may be large. A binary message carries its bytes beside the JSON. Servers decode the ones of
 * requests while they arrive.
 */
export const BYTES_MEMBERS = {
  /** A member of the params of a request, by method. */
  requests: {
    'process/write': 'chunk',
    'tcp/data': 'chunk',
    'fs/writeFile': 'dataBase64',
    'fs/writeBlock': 'chunk',
    'http/request': 'bodyBase64',
    'command/exec/write': 'chunk',
  },
  /** A member of the result, by the method of its request. */
  results: {
    'fs/readFile': 'dataBase64',
    'fs/readBlock': 'chunk',
    'recordings/read': 'chunk',
    'http/request': 'bodyBase64',
  },
  /** A member of the params of a notification, by method. */
  notifications: {
    'process/output': 'chunk',
    'tcp/data': 'chunk',
    'http/request/bodyDelta': 'deltaBase64',
    'command/exec/outputDelta': 'chunk',
  },
} as const satisfies {
  requests: Partial<Record<Method, string>>;
  results: Partial<Record<Method, string>>;
  notifications: Partial<Record<Notification, string>>;
};

/** Returns the member of a kind of message that may be bytes; null when it has none. */
export function bytesMemberOf(kind: keyof typeof BYTES_MEMBERS, method: string): string | null {
  const members: Readonly<Record<string, string>> = BYTES_MEMBERS[kind];
  return Object.hasOwn(members, method) ? members[method]! : null;
}
