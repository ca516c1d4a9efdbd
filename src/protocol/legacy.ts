import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { MAX_ARGUMENTS } from './limits.ts';
import { list } from './list.ts';
import { namedValues } from './named-values.ts';
import { Argument, Base64, Base64Text, doc, Identifier, optional, Uint64, Uri } from './scalars.ts';

/**
 * The legacy dialect `command/exec`. Its processes report in this dialect. Control methods of both dialects work on
 * any process.
 */
export const CommandExecParams = once(() =>
  z.object({
    processId: Identifier(),
    argv: list(Argument(), MAX_ARGUMENTS),
    cwd: doc(Uri(), 'An absolute native path or a `file:` URI.'),
    env: namedValues(Argument()),
    tty: z.boolean(),
    outputBytesCap: doc(
      optional(Uint64()),
      'Bytes to retain of each stream, its beginning and its end together. Can only lower the limits of the server.',
    ),
    arg0: optional(Argument()),
  }),
);

export const CommandExecResult = once(() =>
  z.object({
    processId: Identifier(),
    running: z.literal(true),
    exitCode: z.null(),
    stdout: z.null(),
    stderr: z.null(),
  }),
);

export const CommandExecWriteParams = once(() => z.object({ processId: Identifier(), chunk: Base64Text() }));
export const CommandExecWriteResult = once(() => z.object({ accepted: z.literal(true) }));
export const CommandExecTerminateParams = once(() => z.object({ processId: Identifier() }));
export const CommandExecOutputDeltaParams = once(() =>
  z.object({
    processId: Identifier(),
    stream: doc(z.enum(['stdout', 'stderr']), 'A terminal reports as stdout.'),
    chunk: Base64(),
  }),
);
export const CommandExecExitedParams = once(() =>
  z.object({
    processId: Identifier(),
    exitCode: doc(z.number(), 'Sent after all output. Nothing follows it.'),
  }),
);
