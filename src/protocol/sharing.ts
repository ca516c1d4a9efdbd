import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { Base64, doc, Identifier, Name, PositiveInteger, text, Uint16Positive, Uint64 } from './scalars.ts';

/** Names of processes. */
const PROCESS_NAME = /^[A-Za-z0-9._-]{1,64}$/;

export const ProcessName = once(() =>
  text(64).check(
    z.regex(PROCESS_NAME, { error: 'expected 1 to 64 letters, digits, dots, underscores or hyphens' }),
  ),
);

/** The server-wide reference of a process, as the server gives it. */
export const Ref = once(() => text(64));

/** How long a process lives. */
export const Lifetime = once(() =>
  z.discriminatedUnion('type', [z.object({ type: z.literal('session') }), DetachedLifetime()]),
);

const DetachedLifetime = once(() =>
  z.object({
    type: z.literal('detached'),
    retainMs: doc(
      z.optional(Uint64()),
      'How long its output stays readable after it has closed. The server caps it. Default: 1 hour.',
    ),
  }),
);

export const ProcessSetLifetimeParams = once(() =>
  z.object({
    processId: ProcessId(),
    lifetime: doc(
      DetachedLifetime(),
      'A detached process survives its session until it exits or is terminated. For one that is detached already, changes `retainMs`.',
    ),
  }),
);

export const Role = once(() =>
  doc(
    z.enum(['viewer', 'driver']),
    'A viewer reads. A driver also writes, resizes, signals and terminates. A process has at most one driver.',
  ),
);

export const AttachedClient = once(() =>
  z.object({
    client: doc(z.string(), 'The `clientName` of its `initialize`.'),
    role: Role(),
  }),
);

const ProcessId = once(() => doc(Identifier(), 'The id of the process on this connection.'));

export const WindowBytes = once(() =>
  doc(
    PositiveInteger(),
    'Output that the server may send before `process/consumed` reports it as used; then the program waits. Each notification counts for 512 bytes more than its output, and one may exceed the window. It applies while this client drives and is connected, and begins anew with each connection. Default: no window. Needs the capability `processFlowControl`.',
  ),
);

export const ProcessConsumedParams = once(() =>
  z.object({
    processId: ProcessId(),
    seq: doc(
      Uint64(),
      'The client has used all events up to this one. Report at the latest when half of the window is used.',
    ),
  }),
);

export const ProcessAttachParams = once(() =>
  z.object({
    ref: doc(z.optional(Name()), 'The server-wide reference of the process. Give this, `name`, or both ids.'),
    name: doc(
      z.optional(ProcessName()),
      "The name of one of the owner's processes. With `ref`: used if no process has that reference.",
    ),
    processId: doc(
      z.optional(Identifier()),
      'With `sessionId`: the id that the client of that session chose.',
    ),
    sessionId: doc(z.optional(Name()), 'With `processId`: the session that the process belongs to.'),
    role: doc(z._default(z.enum(['viewer', 'driver']), 'viewer'), 'Driving needs the scope `exec`.'),
    takeOver: doc(
      z._default(z.boolean(), false),
      'With the role `driver`: makes the present driver a viewer. Without this the request fails while there is one.',
    ),
    afterSeq: doc(
      z.optional(Uint64()),
      'Sends retained output after this seq first. Default: only what comes from now on.',
    ),
    windowBytes: doc(
      z.optional(WindowBytes()),
      'The flow-control window of this connection, as in `process/start`. Counts while it drives. Default: the one that it has. It ends with the connection: a client that resumes its session attaches again.',
    ),
    withTimes: doc(
      z.optional(z.boolean()),
      'Adds `timeMs` to the output that follows. It ends with the connection. Default: as before. Needs the capability `processOutputTimes`.',
    ),
    screen: doc(
      z._default(z.boolean(), false),
      'Adds the current screen of a terminal. The output after it follows. Needs the capability `processScreen`.',
    ),
  }),
);

export const Screen = once(() =>
  z.object({
    seq: doc(Uint64(), 'The last event that the screen includes. What follows it continues the screen.'),
    rows: Uint16Positive(),
    cols: Uint16Positive(),
    redraw: doc(
      Base64(),
      'Bytes that draw the screen on a new terminal of this size: text, attributes, modes, cursor, title.',
    ),
    text: doc(z.string(), 'The lines of the screen without attributes.'),
    cursor: doc(z.object({ row: Uint64(), col: Uint64() }), 'From 0.'),
    alternate: doc(z.boolean(), 'Whether the program uses the alternate screen, as editors do.'),
    title: z.string(),
    exact: doc(
      z.boolean(),
      'False when the program wrote more than the server could follow, or the terminal has only one column. The screen may then differ; a resize makes most programs redraw it.',
    ),
  }),
);

export const ProcessAttachResult = once(() =>
  z.object({
    processId: doc(
      z.string(),
      'The id of the process on this connection. All requests and notifications use it.',
    ),
    ref: Ref(),
    name: z.optional(z.string()),
    role: Role(),
    tty: z.boolean(),
    size: z.optional(z.object({ rows: z.number(), cols: z.number() })),
    nextSeq: doc(Uint64(), 'The seq of the first event that is not included in `screen` or sent already.'),
    exitCode: z.nullable(z.number()),
    closed: z.boolean(),
    screen: z.optional(Screen()),
  }),
);

export const ProcessDetachParams = once(() => z.object({ processId: ProcessId() }));

export const ProcessScreenParams = once(() => z.object({ processId: ProcessId() }));

export const ProcessAttachmentParams = once(() =>
  z.object({
    processId: ProcessId(),
    role: doc(
      z.enum(['viewer', 'driver', 'none']),
      'The role of this connection from now on. `none`: it is no longer attached.',
    ),
    reason: doc(
      z.optional(z.enum(['takenOver', 'driverLeft', 'processGone'])),
      'Why the role changed. Absent when only the other clients changed.',
    ),
    attached: doc(z.array(AttachedClient()), 'All attached clients, at most 64.'),
    attachedCount: doc(Uint64(), 'How many clients are attached.'),
  }),
);

export const ProcessSkippedParams = once(() =>
  z.object({
    processId: ProcessId(),
    fromSeq: doc(Uint64(), 'The first event that is not sent.'),
    toSeq: doc(Uint64(), 'The last event that is not sent.'),
  }),
);
