import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { EnvironmentInfo } from './environment.ts';
import { doc, Name, optional, Uint64 } from './scalars.ts';

export const InitializeParams = once(() =>
  z.object({
    clientName: doc(z._default(Name(), ''), 'Name of the client, for logs.'),
    resumeSessionId: doc(optional(Name()), 'The session to resume after a lost connection.'),
    detachedSessionTtlMs: doc(
      optional(Uint64()),
      'How long the server keeps the session without a connection. The server caps it. 0 ends its processes with the connection.',
    ),
    capabilities: doc(
      optional(
        z.object({
          lifecycleNotifications: doc(
            z._default(z.boolean(), false),
            'Send `process/started` and `process/failed`.',
          ),
        }),
      ),
      'Optional features that the client requests.',
    ),
  }),
);

export const InitializeResult = once(() =>
  z.object({
    sessionId: doc(z.string(), 'Pass it as `resumeSessionId` to resume the session.'),
    environmentInfo: z.optional(EnvironmentInfo()),
  }),
);

/** The params of the acknowledgement are ignored, so anything is accepted. */
export const InitializedParams = once(() => z.unknown());
