import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { MAX_ARGUMENTS } from './limits.ts';
import { list } from './list.ts';
import { namedValues } from './named-values.ts';
import { ManagedNetwork, NetworkProxy } from './network.ts';
import { ProcessId, TerminalSize } from './process.ts';
import { Record, RecordingId } from './recordings.ts';
import { Sandbox } from './sandbox.ts';
import {
  Argument,
  doc,
  Identifier,
  Name,
  optional,
  Pattern,
  PositiveInteger,
  Uint16Positive,
  Uri,
} from './scalars.ts';
import { Lifetime, ProcessName, Ref, WindowBytes } from './sharing.ts';

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
