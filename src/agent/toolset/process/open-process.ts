import { ClientError } from '../../../client/errors.ts';
import type { ExecProcess, ProcessInfo } from '../../../environment/index.ts';
import type { Call } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { REQUEST_TIMEOUT_MS } from '../limits.ts';
import { text } from '../parameters.ts';
import { type Position, positionOf, START } from './cursor.ts';

/** The parameter that names a process. */
export const PROCESS = text(
  'The process: its reference from an earlier answer or from list_processes, or its name.',
);

/** The parameter that says where output begins. */
export const CURSOR = text(
  'Where to begin: the cursor of an earlier answer about this process. Default: after the output that you already have.',
);

/** Finds a process. Throws ToolFailure when there is none. */
export async function findProcess(
  call: Call,
  refOrName: string,
  timeoutMs = REQUEST_TIMEOUT_MS,
): Promise<ProcessInfo & { readonly ref: string }> {
  if (refOrName === '') throw new ToolFailure('The process is empty. list_processes shows what there is.');
  try {
    const info = await call.target.environment.processes.get(refOrName, { signal: call.signal, timeoutMs });
    if (info.ref !== null) return { ...info, ref: info.ref };
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'notFound') throw error;
  }
  throw unknownProcess(call, refOrName);
}

/** Where a call begins to read: at its cursor, else behind what earlier calls have returned, else at the beginning. */
export function startOf(call: Call, ref: string, cursor: string | undefined): Position {
  if (cursor !== undefined) return positionOf(cursor, ref);
  return call.positions.get(call.target.name, ref) ?? START;
}

/** Attaches to a process, lets `use` work with it, and detaches. The process keeps running. */
export async function withAttached<T>(
  call: Call,
  { ref, nextSeq }: ProcessInfo & { readonly ref: string },
  {
    afterSeq,
    drive = false,
    timeoutMs,
  }: { readonly afterSeq: number; readonly drive?: boolean; readonly timeoutMs?: number },
  use: (process: ExecProcess) => Promise<T>,
): Promise<T> {
  if (afterSeq >= nextSeq) {
    throw new ToolFailure(
      `The cursor is behind the end of the output of process ${ref}: it belongs to another process. Leave it out.`,
    );
  }
  const role = drive ? ({ role: 'driver', takeOver: true } as const) : ({ role: 'viewer' } as const);
  const process = await attach(call, ref, { ...role, afterSeq }, timeoutMs);
  try {
    return await use(process);
  } finally {
    detach(process);
  }
}

/** Detaches from a process in the background. It keeps running. */
export function detach(process: ExecProcess): void {
  process.detach().catch(() => {});
}

/**
 * Runs a request that needs the control of a process. A connection that is attached to the process as a viewer, for another call, has to
 * become its driver for that.
 */
export async function controlling(
  call: Call,
  ref: string,
  request: () => Promise<unknown>,
  driven: (process: ExecProcess) => Promise<unknown>,
): Promise<void> {
  try {
    await request();
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'conflict') throw error;
    const process = await attach(call, ref, { role: 'driver', takeOver: true });
    try {
      await driven(process);
    } finally {
      detach(process);
    }
  }
}

async function attach(
  call: Call,
  ref: string,
  options: { readonly role: 'viewer' | 'driver'; readonly takeOver?: boolean; readonly afterSeq?: number },
  timeoutMs = REQUEST_TIMEOUT_MS,
): Promise<ExecProcess> {
  const { processes } = call.target.environment;
  try {
    return await processes.attach(ref, { ...options, signal: call.signal, timeoutMs });
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'notFound') throw unknownProcess(call, ref);
    throw error;
  }
}

function unknownProcess({ target, positions }: Call, refOrName: string): ToolFailure {
  const why =
    positions.get(target.name, refOrName) === undefined
      ? 'It never existed, or it ended and its output has expired.'
      : 'It was there before: since then the server was replaced, and the program ended with it, or it ended and its output has expired.';
  return new ToolFailure(
    `The environment "${target.name}" has no process ${JSON.stringify(refOrName.slice(0, 100))}. ${why} list_processes shows what there is.`,
    { kind: 'notFound' },
  );
}
