import { onAbort } from '../../base/abort.ts';
import type { ExecProcess } from '../backend.ts';
import { wrong } from '../connection/option-checks.ts';
import { ClientError, type ClientErrorKind } from '../errors.ts';
import { INPUT_CHUNK_BYTES } from '../limits.ts';

/** Input of a program: text or bytes, whole or in pieces. A readable stream of Node is such an iterable. */
export type ProgramInput =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | Iterable<string | Uint8Array>;

/**
 * Throws ClientError for what is no input. Call it as soon as the input is passed. A stream may fail before it is read, and Node ends a program whose stream fails without a
 * listener. Reading it reports the error later.
 */
export function expectInput(input: ProgramInput | undefined): void {
  const value: unknown = input;
  if (value === undefined || typeof value === 'string' || ArrayBuffer.isView(value)) return;
  const isIterable =
    typeof value === 'object' &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value);
  if (!isIterable) throw wrong('`input` is', value, WHOLE_INPUT);
  if (Array.isArray(value)) for (const piece of value) expectPiece(piece);
  if (typeof input !== 'object' || !('on' in input) || typeof input.on !== 'function') return;
  input.on('error', () => {});
}

/**
 * Writes the input and closes stdin. Each chunk waits for the answer to the one before, because the server answers only as fast as the
 * program reads. A program that ends before its input is no error. `signal` stops the reading of the input.
 */
export async function writeInput(
  process: ExecProcess,
  input: ProgramInput,
  signal: AbortSignal,
): Promise<void> {
  for await (const piece of piecesOf(input, signal)) {
    if (!(await writePiece(process, asBytes(piece), signal))) return;
  }
  if (!signal.aborted) await unlessEnded(process, signal, () => process.closeStdin({ signal }));
}

/** Returns false when the program reads no more. */
async function writePiece(process: ExecProcess, bytes: Uint8Array, signal: AbortSignal): Promise<boolean> {
  for (let at = 0; at < bytes.length; at += INPUT_CHUNK_BYTES) {
    const chunk = bytes.subarray(at, at + INPUT_CHUNK_BYTES);
    const write = () => process.write(chunk, { signal }).then(() => true);
    if (!(await unlessEnded(process, signal, write))) return false;
  }
  return true;
}

/** The end of the process explains more than the call that failed because of it. */
async function unlessEnded<T>(
  process: ExecProcess,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T | null> {
  try {
    return await call();
  } catch (error) {
    const { exited, failure } = process.state;
    const readsNoMore = error instanceof ClientError && READS_NO_MORE.has(error.kind);
    if (!readsNoMore && !exited && failure === null && !signal.aborted) throw error;
    return null;
  }
}

const READS_NO_MORE: ReadonlySet<ClientErrorKind> = new Set<ClientErrorKind>(['stdinClosed', 'notFound']);

/** Iterates over the pieces until the signal aborts, even if the next piece never comes. Closes the source. */
async function* piecesOf(
  input: ProgramInput,
  signal: AbortSignal,
): AsyncGenerator<string | Uint8Array, void> {
  if (typeof input === 'string' || ArrayBuffer.isView(input)) return yield input;
  const iterator = Symbol.asyncIterator in input ? input[Symbol.asyncIterator]() : input[Symbol.iterator]();
  let stop = () => {};
  const aborted = new Promise<{ readonly done: true }>((resolve) => {
    const end = () => resolve({ done: true });
    if (signal.aborted) end();
    else stop = onAbort(signal, end);
  });
  let ended = false;
  try {
    for (;;) {
      const next = await Promise.race([aborted, iterator.next()]);
      if (next.done) {
        ended = !signal.aborted;
        return;
      }
      yield next.value;
    }
  } catch (error) {
    ended = true;
    throw error;
  } finally {
    stop();
    if (!ended) close(input, iterator);
  }
}

/** Not awaited: the source may be waiting for something that never comes. A stream is destroyed, which ends such a wait. */
function close(input: object, iterator: AsyncIterator<unknown> | Iterator<unknown>): void {
  if ('destroy' in input && typeof input.destroy === 'function') input.destroy();
  else void Promise.resolve(iterator.return?.()).catch(() => {});
}

function asBytes(piece: string | Uint8Array): Uint8Array {
  expectPiece(piece);
  if (typeof piece === 'string') return new TextEncoder().encode(piece);
  return new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
}

function expectPiece(piece: unknown): void {
  if (typeof piece === 'string' || ArrayBuffer.isView(piece)) return;
  throw wrong('a piece of `input` is', piece, 'text or a Uint8Array');
}

const WHOLE_INPUT = 'text, a Uint8Array, or a stream or list of them';
