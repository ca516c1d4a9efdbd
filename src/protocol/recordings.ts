import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { Base64, doc, Identifier, optional, Uint64 } from './scalars.ts';

export const RecordingId = once(() => doc(Identifier(), 'The id of the recording.'));

export const Record = once(() =>
  z.union([
    z.boolean(),
    z.object({
      input: doc(
        z._default(z.boolean(), false),
        'Also record what clients write to the program, such as passwords.',
      ),
    }),
  ]),
);

const State = once(() =>
  doc(
    z.enum(['recording', 'complete', 'incomplete']),
    '`incomplete`: output or the exit status is missing; markers in the recording say where.',
  ),
);

export const ProcessRecording = once(() =>
  z.object({
    recordingId: RecordingId(),
    state: State(),
    bytes: doc(Uint64(), 'How large the file is.'),
  }),
);

export const RecordingsListParams = once(() =>
  z._default(
    z.object({
      after: doc(optional(Identifier()), '`next` of an earlier result, to list the recordings after it.'),
      scope: doc(
        z._default(z.enum(['owner', 'server']), 'owner'),
        'Whose recordings: of the owner of this connection, or all. `server` needs the scope `observe`.',
      ),
    }),
    { scope: 'owner' },
  ),
);

export const RecordingsListResult = once(() =>
  z.object({
    recordings: z.array(
      z.object({
        ...ProcessRecording().shape,
        ref: doc(z.string(), 'The server-wide reference of the process.'),
        name: z.optional(z.string()),
        owner: z.string(),
        command: doc(z.string(), 'The command line, with secrets masked.'),
        tty: z.boolean(),
        startedAtMs: doc(Uint64(), 'Unix time in milliseconds.'),
        path: doc(z.string(), 'The file on the server, a `file:` URI.'),
      }),
    ),
    next: doc(
      z.optional(z.string()),
      'Present when there are more recordings, which did not fit into this result. Pass it as `after`.',
    ),
  }),
);

export const RecordingsReadParams = once(() =>
  z.object({
    recordingId: RecordingId(),
    offset: doc(z._default(Uint64(), 0), 'Where to begin, in bytes.'),
    maxBytes: doc(optional(Uint64()), 'Byte limit of the result. At most 1 MiB is returned.'),
  }),
);

export const RecordingsReadResult = once(() =>
  z.object({
    chunk: doc(Base64(), 'Bytes of the file. Empty at its end.'),
    bytes: doc(Uint64(), 'How large the file is. It grows while the state is `recording`.'),
    state: State(),
  }),
);
