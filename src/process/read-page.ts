import type { OutputLog, PageBudget, RetainedChunk } from './output-log.ts';
import type { LimitReason } from './resources/resource-limits.ts';
import type { StreamName } from './spawn/spawner.ts';

/** Which page to read and how long to wait for new events. */
export interface ReadRequest {
  readonly afterSeq: number;
  readonly maxBytes: number | null;
  readonly waitMs: number;
  /** How much the reader accepts; unlimited when absent. */
  readonly budget?: PageBudget;
}

/** How far a process has come. */
interface ProgressOfProcess {
  readonly exitCode: number | null;
  /** Infinite while the program runs. */
  readonly exitSeq: number;
  readonly closed: boolean;
  readonly reason: LimitReason | null;
  readonly denied: boolean;
}

/**
 * A page of retained output and the state of the process. A page that ends early because of its size budget has the state after
 * its last event, so a reader that continues until `closed` misses nothing.
 */
export interface ReadPage extends Omit<ProgressOfProcess, 'exitSeq'> {
  readonly chunks: readonly RetainedChunk[];
  readonly nextSeq: number;
  readonly position: ReadPosition;
}

/** What came before the end of a page. */
interface ReadPosition {
  /** See {@link OutputLog.bytesBefore}. */
  readonly streamBytes: Readonly<Record<StreamName, number | null>>;
  /** Null when the exit comes later. */
  readonly exitSeq: number | null;
}

/** Reads what is retained now. */
export function readPage(
  log: OutputLog,
  { exitCode, exitSeq, closed, reason, denied }: ProgressOfProcess,
  { afterSeq, maxBytes, budget }: ReadRequest,
): ReadPage {
  const { chunks, endsEarly } = log.read(afterSeq, maxBytes, budget);
  const last = chunks.at(-1);
  const nextSeq = last !== undefined && (maxBytes !== null || endsEarly) ? last.seq + 1 : log.nextSeq;
  const exitIsBehind = exitSeq >= nextSeq;
  const bytesOf = (stream: StreamName) => log.bytesBefore(nextSeq, stream);
  const position = {
    streamBytes: { stdout: bytesOf('stdout'), stderr: bytesOf('stderr'), pty: bytesOf('pty') },
    exitSeq: exitIsBehind ? null : exitSeq,
  };
  const page = { chunks, nextSeq, exitCode, closed, reason, denied, position };
  if (!endsEarly || maxBytes !== null) return page;
  return { ...page, closed: false, ...(exitIsBehind && { exitCode: null, reason: null, denied: false }) };
}
