import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { EnvironmentInfo } from './environment.ts';
import { doc, Name, optional, Uint64 } from './scalars.ts';

/** A TTL without a limit. */
export const NO_TTL = -1;

const TtlMs = once(() =>
  z.number().check(
    z.refine((value) => value === NO_TTL || (Number.isInteger(value) && value >= 0 && value <= 2 ** 64), {
      error: 'expected an unsigned integer, or -1 for no limit',
    }),
  ),
);

const DroppedProcess = once(() =>
  z.object({
    processId: z.string(),
    exitCode: z.number(),
    closedAtMs: doc(z.number(), 'When the process closed, in Unix time.'),
    droppedAtMs: doc(z.number(), 'When the server dropped it.'),
    limit: doc(z.string(), 'The setting of the server that limits what it keeps.'),
  }),
);

export const InitializeParams = once(() =>
  z.object({
    clientName: doc(z._default(Name(), ''), 'Name of the client, for logs.'),
    resumeSessionId: doc(optional(Name()), 'The session to resume after a lost connection.'),
    detachedSessionTtlMs: doc(
      optional(TtlMs()),
      "How long the server keeps the session without a connection. At most `maxDetachedSessionTtlMs` of the server's `limits` after a lost connection, and `detachedSessionTtlMs` after a close frame of the client. 0 ends its processes with the connection; -1 asks for no limit.",
    ),
    capabilities: doc(
      optional(
        z.object({
          lifecycleNotifications: doc(
            z._default(z.boolean(), false),
            'Send `process/started` and `process/failed`.',
          ),
          droppedProcesses: doc(
            z._default(z.boolean(), false),
            'Report processes that were dropped while they waited for a client: in the result of `initialize`, and in the error of a request that names one.',
          ),
          processSharing: doc(
            z._default(z.boolean(), false),
            "Return the `ref` of a started process, and send `process/attachment` for the session's own processes.",
          ),
          binaryMessages: doc(
            z._default(z.boolean(), false),
            'Send binary messages in both directions, if the transport has binary frames.',
          ),
          drainNotice: doc(
            z._default(z.boolean(), false),
            'Send `server/draining` when the server is about to end.',
          ),
          whileDraining: doc(
            z._default(z.boolean(), false),
            'Open a session also while the server drains. Such a session cannot start programs, write files or reach the network.',
          ),
          readOnly: doc(
            z._default(z.boolean(), false),
            'Give up the rights to start and drive programs, to change files and to reach the network, for this connection. Needs the capability `readOnlyConnections`.',
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
    droppedProcesses: doc(
      z.optional(z.array(DroppedProcess())),
      'The latest 64 closed processes that the server dropped while they waited for a client. Absent without any, and unless requested.',
    ),
    binaryMessages: doc(
      z.optional(z.boolean()),
      'True when this connection carries binary messages. Absent unless requested.',
    ),
  }),
);

export const ServerDrainingParams = once(() =>
  z.object({
    deadlineMs: doc(
      z.optional(Uint64()),
      'When the server ends the programs that still run, in Unix time. Absent when it waits without a limit.',
    ),
  }),
);

/** The params of the acknowledgement are ignored, so anything is accepted. */
export const InitializedParams = once(() => z.unknown());
