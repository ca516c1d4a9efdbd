import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { EnvironmentInfo } from './environment.ts';
import { doc, optional, Uint64 } from './scalars.ts';

export const InitializeParams = once(() =>
  z.object({
    clientName: doc(z._default(z.string(), ''), 'Who is calling, for logs.'),
    resumeSessionId: doc(optional(z.string()), 'The session to take over after a lost connection.'),
    detachedSessionTtlMs: doc(
      optional(Uint64()),
      'How long the session outlives its connection; the server caps it. 0 ends its processes with the connection.',
    ),
    capabilities: doc(
      optional(
        z.object({
          lifecycleNotifications: doc(
            z._default(z.boolean(), false),
            'Send `process/started` and `process/failed` too.',
          ),
        }),
      ),
      'What the client wants beyond the basic protocol.',
    ),
  }),
);

export const InitializeResult = once(() =>
  z.object({
    sessionId: doc(z.string(), 'Quote it as `resumeSessionId` to come back.'),
    environmentInfo: z.optional(EnvironmentInfo()),
  }),
);

/** The acknowledgement takes anything: its params are ignored. */
export const InitializedParams = once(() => z.unknown());
