import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { ProcessRecording } from './recordings.ts';
import {
  Base64,
  Base64Text,
  doc,
  Identifier,
  Name,
  notEmpty,
  optional,
  Uint16Positive,
  Uint64,
} from './scalars.ts';
import { AttachedClient, Ref } from './sharing.ts';

/** Names a process in the requests of one session. */
export const ProcessId = once(() => doc(Identifier(), 'Chosen by the client. Unique within its session.'));
const Stream = once(() => z.enum(['stdout', 'stderr', 'pty']));
const Seq = once(() => doc(Uint64(), 'Position among all events of the process, from 1, without gaps.'));
/** The size of a terminal, in characters. */
export const TerminalSize = once(() => z.object({ rows: Uint16Positive(), cols: Uint16Positive() }));

const Reason = once(() =>
  doc(
    z.optional(z.enum(['oom', 'timeout', 'idle', 'outputLimit'])),
    'The limit that ended the program. Absent when none did.',
  ),
);

export const ProcessReadParams = once(() =>
  z.object({
    processId: ProcessId(),
    afterSeq: doc(optional(Uint64()), 'Return only chunks with a greater seq.'),
    maxBytes: doc(
      optional(Uint64()),
      'Byte limit of the result. The first chunk is returned even if it is larger.',
    ),
    waitMs: doc(optional(Uint64()), 'How long to wait for new output.'),
    withPosition: doc(
      z.optional(z.boolean()),
      'Adds `position` to the result. Needs the capability `processReadPosition`.',
    ),
    withTimes: doc(
      z.optional(z.boolean()),
      'Adds `timeMs` to each chunk. Needs the capability `processOutputTimes`.',
    ),
  }),
);

const OutputTime = once(() =>
  doc(
    z.optional(Uint64()),
    'When the server read the output, in Unix time in milliseconds. Present with `withTimes`.',
  ),
);

const Chunk = once(() => z.object({ seq: Seq(), stream: Stream(), timeMs: OutputTime(), chunk: Base64() }));

const StreamPosition = once(() => z.nullable(Uint64()));
const ReadPosition = once(() =>
  z.object({
    streamBytes: doc(
      z.object({ stdout: StreamPosition(), stderr: StreamPosition(), pty: StreamPosition() }),
      'How many bytes each stream had before the seq `nextSeq`, including evicted ones. Null when only a later page reports it.',
    ),
    exitSeq: doc(z.nullable(Seq()), 'The seq of the exit; null when it is not before `nextSeq`.'),
  }),
);

export const ProcessReadResult = once(() =>
  z.object({
    chunks: doc(
      z.array(Chunk()),
      'Retained output of all streams in order, up to the size limit of a response. A seq that is missing is an evicted chunk or the exit. The first chunk of a stream after a missing one may lack its first bytes.',
    ),
    nextSeq: doc(Uint64(), 'To continue, read with `afterSeq` = this - 1.'),
    exited: z.boolean(),
    exitCode: doc(z.nullable(z.number()), '128 + n when signal n ended the process.'),
    closed: doc(
      z.boolean(),
      'The process has exited and all its output has arrived at the server. Without `maxBytes`, no output follows this page. With `maxBytes`, output may follow: continue until a page is empty.',
    ),
    failure: doc(z.nullable(z.string()), 'Servers always send null.'),
    sandboxDenied: z.optional(z.boolean()),
    reason: Reason(),
    position: doc(
      z.optional(ReadPosition()),
      'Present with `withPosition`. Lost output can be counted with it.',
    ),
  }),
);

export const ProcessWriteParams = once(() =>
  z.object({
    processId: ProcessId(),
    chunk: doc(Base64Text(), 'Bytes for stdin.'),
    writeId: doc(
      z.optional(Identifier().check(notEmpty('writeId must not be empty'))),
      'Makes retries safe: the server does not write an id again that it has accepted before.',
    ),
  }),
);

export const ProcessWriteResult = once(() =>
  z.object({
    status: doc(
      z.enum(['accepted', 'unknownProcess', 'stdinClosed', 'starting']),
      '`accepted` means that the bytes are queued for the child in call order.',
    ),
  }),
);

export const ProcessSignalParams = once(() =>
  z.object({
    processId: ProcessId(),
    signal: doc(Name(), '`interrupt`, or a POSIX name such as `SIGTERM`.'),
  }),
);
export const EmptyResult = once(() => z.object({}));

const TerminateMode = once(() =>
  z.discriminatedUnion('type', [
    z.object({
      type: z.literal('graceful'),
      timeoutMs: doc(Uint64(), 'Time between SIGTERM and SIGKILL.'),
    }),
    z.object({ type: z.literal('force') }),
  ]),
);

export const ProcessTerminateParams = once(() =>
  z.object({
    processId: ProcessId(),
    mode: doc(optional(TerminateMode()), 'Default: `force`, which sends SIGKILL immediately.'),
  }),
);

export const ProcessTerminateResult = once(() =>
  z.object({
    running: doc(z.boolean(), 'Whether the process was alive when the request arrived.'),
  }),
);

export const ProcessSubjectParams = once(() => z.object({ processId: ProcessId() }));

export const ProcessCloseStdinResult = once(() =>
  z.object({
    status: doc(
      z.enum(['closed', 'alreadyClosed', 'unknownProcess']),
      'On a terminal the server sends the end-of-file character.',
    ),
  }),
);

export const ProcessResizeParams = once(() =>
  z.object({
    processId: ProcessId(),
    rows: Uint16Positive(),
    cols: Uint16Positive(),
  }),
);

export const ProcessWaitParams = once(() =>
  z.object({
    processId: ProcessId(),
    until: doc(z._default(z.enum(['exited', 'closed']), 'closed'), 'Which state to wait for.'),
    timeoutMs: doc(optional(Uint64()), 'No limit when absent.'),
  }),
);

export const ProcessWaitResult = once(() =>
  z.object({
    running: doc(z.boolean(), 'True when the timeout ended the wait.'),
    exited: z.boolean(),
    exitCode: z.nullable(z.number()),
    closed: z.boolean(),
    reason: Reason(),
  }),
);

const StreamSnapshot = once(() =>
  doc(
    Base64(),
    'The first and the last bytes of the stream, joined. At most 2 MiB, and as much as fits into a response.',
  ),
);
const OmittedBytes = once(() => z.object({ stdout: Uint64(), stderr: Uint64(), terminal: Uint64() }));

export const ProcessSnapshotResult = once(() =>
  z.object({
    stdout: StreamSnapshot(),
    stderr: StreamSnapshot(),
    terminal: StreamSnapshot(),
    truncated: doc(z.boolean(), 'Whether bytes are missing in the middle of a stream.'),
    omittedBytes: doc(OmittedBytes(), 'How many bytes are missing, per stream.'),
    headBytes: doc(OmittedBytes(), 'Offset of the missing bytes, per stream.'),
    exitCode: z.nullable(z.number()),
    running: z.boolean(),
    closed: z.boolean(),
    nextSeq: Uint64(),
    reason: Reason(),
  }),
);

export const ProcessListParams = once(() =>
  z._default(
    z.object({
      after: doc(optional(Uint64()), '`next` of an earlier result, to list the processes after it.'),
      scope: doc(
        z.optional(z.enum(['session', 'owner', 'server'])),
        'Whose processes: of this session, of the owner of this connection, or all. Default: `session`. `server` needs the scope `observe`.',
      ),
      ports: doc(z.optional(z.boolean()), 'Adds the TCP ports that each process listens on.'),
    }),
    {},
  ),
);

const ListedSandbox = once(() =>
  z.object({
    type: doc(
      z.enum(['readOnly', 'workspaceWrite', 'other']),
      'The form of the sandbox. `other`: a permission profile, or only the minimum sandbox of the server.',
    ),
    writableRoots: doc(
      z.optional(z.array(z.string())),
      'The directories that `workspaceWrite` makes writable, as `file:` URIs, with the temporary ones.',
    ),
    readOnlyPaths: doc(
      z.optional(z.array(z.string())),
      'Paths that a permission profile does not make writable, although they may be below such a directory.',
    ),
    networkAccess: doc(z.optional(z.boolean()), 'Whether the program can reach a network or a proxy.'),
  }),
);

export const ProcessListResult = once(() =>
  z.object({
    processes: z.array(
      z.object({
        processId: doc(z.string(), 'The id on this connection: that of its session, or the `ref`.'),
        ref: doc(z.optional(Ref()), 'The server-wide reference, accepted wherever a `processId` is.'),
        name: z.optional(z.string()),
        owner: doc(z.optional(z.string()), "The subject of the owner's token; `local` without one."),
        lifetime: z.optional(z.enum(['session', 'detached'])),
        argv: doc(z.array(z.string()), 'The first 4,096 characters of the arguments.'),
        argvTruncated: doc(z.optional(z.literal(true)), 'Present when `argv` is incomplete.'),
        cwd: z.string(),
        tty: z.boolean(),
        state: z.enum(['starting', 'running', 'exited', 'closed']),
        exitCode: z.nullable(z.number()),
        startedAtMs: doc(Uint64(), 'Unix time in milliseconds.'),
        nextSeq: Uint64(),
        reason: Reason(),
        size: doc(z.optional(TerminalSize()), 'Of the terminal.'),
        outputBytes: doc(z.optional(Uint64()), 'How many bytes the program has written.'),
        endedAtMs: doc(z.optional(Uint64()), 'When the process closed.'),
        attached: doc(z.optional(z.array(AttachedClient())), 'The attached clients, at most 64.'),
        ports: doc(z.optional(z.array(z.number())), 'The TCP ports that it listens on, if requested.'),
        sandbox: doc(z.optional(ListedSandbox()), 'How the program is sandboxed. Absent without a sandbox.'),
        recording: doc(z.optional(ProcessRecording()), 'Present when the process is recorded.'),
      }),
    ),
    next: doc(
      z.optional(Uint64()),
      'Present when there are more processes, which did not fit into this result. Pass it as `after`.',
    ),
  }),
);

export const ProcessOutputParams = once(() =>
  z.object({
    processId: ProcessId(),
    seq: Seq(),
    stream: Stream(),
    timeMs: OutputTime(),
    chunk: Base64(),
  }),
);
export const ProcessExitedParams = once(() =>
  z.object({
    processId: ProcessId(),
    seq: Seq(),
    exitCode: doc(z.number(), '128 + n when signal n ended the process.'),
    sandboxDenied: z.optional(z.boolean()),
    reason: Reason(),
  }),
);
export const ProcessClosedParams = once(() =>
  z.object({ processId: ProcessId(), seq: Seq(), reason: Reason() }),
);
export const ProcessStartedParams = once(() => z.object({ processId: ProcessId() }));
export const ProcessFailedParams = once(() => z.object({ processId: ProcessId(), message: z.string() }));
