import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { MAX_ARGUMENTS } from './limits.ts';
import { list } from './list.ts';
import { namedValues } from './named-values.ts';
import { ManagedNetwork, NetworkProxy } from './network.ts';
import { ProcessRecording, Record, RecordingId } from './recordings.ts';
import { Sandbox } from './sandbox.ts';
import {
  Argument,
  Base64,
  Base64Text,
  doc,
  Identifier,
  Name,
  notEmpty,
  optional,
  Pattern,
  PositiveInteger,
  Uint16Positive,
  Uint64,
  Uri,
} from './scalars.ts';
import { AttachedClient, Lifetime, ProcessName, Ref, WindowBytes } from './sharing.ts';

const ProcessId = once(() => doc(Identifier(), 'Chosen by the client. Unique within its session.'));
const Stream = once(() => z.enum(['stdout', 'stderr', 'pty']));
const Seq = once(() => doc(Uint64(), 'Position among all events of the process, from 1, without gaps.'));
const StringMap = once(() => namedValues(Argument()));

const EnvPolicy = once(() =>
  z.object({
    inherit: doc(z.enum(['all', 'core', 'none']), "Which variables of the server's environment to inherit."),
    ignoreDefaultExcludes: doc(z.boolean(), 'Keep names that contain KEY, SECRET or TOKEN.'),
    exclude: doc(list(Pattern()), 'Globs of names to drop.'),
    set: doc(StringMap(), 'Variables to add. The two filters above do not apply to them.'),
    includeOnly: doc(list(Pattern()), 'If not empty, globs of the names to keep; all others are dropped.'),
  }),
);

const Metadata = once(() =>
  z.object({
    threadId: doc(
      optional(
        Name().check(
          z.regex(/^(?:urn:uuid:)?\{?[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?$/, {
            error: 'expected a UUID',
          }),
        ),
      ),
      'Becomes CODEX_THREAD_ID.',
    ),
    toolCallId: doc(optional(Identifier()), 'Becomes CODEX_TOOL_CALL_ID.'),
  }),
);

const ShellSnapshot = once(() =>
  z.object({
    scopeId: doc(Identifier(), 'Commands of one scope share a shell state. 1 to 256 bytes.'),
    shell: z.object({
      name: doc(Name(), '`bash`, `zsh` or `sh`.'),
      path: doc(Argument(), 'Must equal `argv[0]`.'),
    }),
  }),
);

const TerminalSize = once(() => z.object({ rows: Uint16Positive(), cols: Uint16Positive() }));

const ProcessIo = once(() =>
  z.discriminatedUnion('type', [
    z.object({ type: z.literal('pty'), rows: Uint16Positive(), cols: Uint16Positive() }),
    z.object({ type: z.literal('pipe'), stdin: z.enum(['open', 'closed']) }),
  ]),
);

const program = once(() => ({
  argv: doc(list(Argument(), MAX_ARGUMENTS), 'The command vector. It is never passed through a shell.'),
  cwd: doc(Uri(), 'Working directory, a `file:` URI.'),
  env: doc(StringMap(), 'Environment variables of the child. With `envPolicy` they override its result.'),
  arg0: doc(
    optional(Argument()),
    'The argv[0] that the program sees, if it differs from the first of `argv`.',
  ),
}));

const Limits = once(() =>
  z.object({
    memoryBytes: doc(
      optional(PositiveInteger()),
      'Memory of the program and its descendants. Applies to each process separately where the server has no control groups.',
    ),
    pids: doc(
      optional(PositiveInteger()),
      'Number of processes and threads. Refused where the server has no control groups.',
    ),
    cpuPercent: doc(
      optional(PositiveInteger()),
      'Percentage of one processor. Refused where the server has no control groups.',
    ),
    wallMs: doc(optional(PositiveInteger()), 'Time from the start until the last output stream has ended.'),
    idleMs: doc(optional(PositiveInteger()), 'Time without output.'),
    outputBytes: doc(optional(PositiveInteger()), 'Bytes of all output streams. Further output is dropped.'),
  }),
);

const bounds = once(() => ({
  limits: doc(optional(Limits()), "Resource limits of the program, within the server's own limits."),
  sandbox: doc(optional(Sandbox()), 'The sandbox of the program. Null adds none.'),
}));

const Reason = once(() =>
  doc(
    z.optional(z.enum(['oom', 'timeout', 'idle', 'outputLimit'])),
    'The limit that ended the program. Absent when none did.',
  ),
);

const sharing = once(() => ({
  name: doc(
    optional(ProcessName()),
    "A name for the process, unique among the owner's running processes, and not the reference of one. Needs the capability `processSharing`.",
  ),
  lifetime: doc(
    optional(Lifetime()),
    '`session`, the default, ends the process with its session. `detached` keeps it until it exits or is terminated. Needs the capability `processSharing`.',
  ),
  windowBytes: optional(WindowBytes()),
  holdOutput: doc(
    optional(z.boolean()),
    'Default false: a program that writes while its session has no connection is not paused, and the oldest output is dropped. With true the server keeps all output that `process/consumed` has not reported as used. A program that writes more waits, as behind a full pipe, and continues when the session is resumed and reports. While a client that has attached drives, nothing is held, and its own window counts. A client that has resumed the session and reports nothing reads with `process/read` instead, or gives the rest up with `process/wait`. A session that attaches with a window of more than 1 MiB is not held up before its window is full; a lost connection can then cost the part of it that the server no longer retains. Holding ends with the session, with `process/detach`, and when the program is asked to end. Needs `windowBytes` of at most 1 MiB, and the capability `processHoldOutput`.',
  ),
  record: doc(
    optional(Record()),
    'Record the process on the server in the format asciicast v3. Needs the capability `processRecording`.',
  ),
}));

const FlatStart = once(() =>
  z.object({
    processId: ProcessId(),
    ...program(),
    tty: doc(z.boolean(), 'Run on a terminal. stdout and stderr are then one stream.'),
    pipeStdin: doc(
      z._default(z.boolean(), false),
      'Keep stdin open for `process/write`; otherwise it is /dev/null.',
    ),
    size: doc(optional(TerminalSize()), 'Initial size of the terminal; 24 by 80 when absent.'),
    envPolicy: doc(optional(EnvPolicy()), 'When absent, the environment of the child is exactly `env`.'),
    metadata: doc(optional(Metadata()), 'Identifiers to pass to the child.'),
    ...bounds(),
    ...sharing(),
    enforceManagedNetwork: doc(
      z._default(z.boolean(), false),
      'The program can reach its proxy and no other part of the network. Refused without a sandbox.',
    ),
    managedNetwork: doc(
      optional(ManagedNetwork()),
      'Without effect on Linux, where the environment names the proxy.',
    ),
    networkProxy: doc(
      optional(NetworkProxy()),
      'Run a network proxy for this program and set its proxy variables.',
    ),
    shellSnapshot: doc(
      optional(ShellSnapshot()),
      'Run a login command (`argv` = shell, `-lc`, script, …) in a saved login-shell state. Other commands run as given.',
    ),
  }),
);

const DirectStart = once(() =>
  z.object({
    direct: z.object({ processId: ProcessId(), ...program(), ...bounds(), ...sharing(), io: ProcessIo() }),
  }),
);

const PreparedStart = once(() =>
  z.object({
    prepared: z.object({
      processId: ProcessId(),
      request: z.object(program()),
      ...bounds(),
      ...sharing(),
      io: ProcessIo(),
    }),
  }),
);

/** The names under which clients ask to pass open files to the program. */
export const PASSED_DESCRIPTORS = {
  names: ['inheritedFds', 'inherited_fds', 'inheritFds', 'passFds', 'extraFds', 'fds', 'fdList'],
  reason:
    'file descriptors of a client cannot be passed to a program; it has stdin, stdout and stderr only. Write to stdin, or pass a path',
};

/** Three forms of one request, distinguished by the member `direct` or `prepared`. */
export const ProcessStartParams = once(() => z.union([FlatStart(), DirectStart(), PreparedStart()]));

export const ProcessStartResult = once(() =>
  z.object({
    processId: ProcessId(),
    sandboxType: doc(
      z.nullish(z.enum(['none', 'macosSeatbelt', 'linuxSeccomp', 'windowsRestrictedToken'])),
      'The sandbox that the process runs in.',
    ),
    ref: doc(
      z.optional(Ref()),
      'The server-wide reference of the process. Present when `initialize` requested `processSharing`.',
    ),
    recordingId: doc(
      z.optional(RecordingId()),
      'The id of the recording. Present when the request asked for one.',
    ),
  }),
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
