import { ClientError } from '../../../client/errors.ts';
import type { ExecProcess, ProcessEvent, ProcessInfo } from '../../../environment/index.ts';
import { type Call, reportProgress } from '../call.ts';
import { MAX_CHUNK_BYTES } from '../limits.ts';
import { isDisconnected } from '../workspace.ts';
import type { Position } from './cursor.ts';
import { type Followed, follow } from './follow.ts';
import { type CollectedOutput, OutputWindow } from './output-window.ts';

/** The state of a process before it was attached. */
export type KnownState = Pick<ProcessInfo, 'nextSeq' | 'outputBytes' | 'state'>;

/** The state of a process that has just been started. */
export const FRESH: KnownState = { nextSeq: 1, outputBytes: 0, state: 'running' };

/** How output is collected. */
export interface CollectOptions {
  readonly from: Position;
  readonly waitMs: number;
  /** Returns this much output, or what there is. Does not wait for new output. */
  readonly pageBytes?: number;
  /** Whether the whole page is kept. Otherwise the beginning and the end of long output are. Default true. */
  readonly keepsPage?: boolean;
  /**
   * What ends the collection when the program has exited and a program that it started keeps its output open: `silence` for a moment, which
   * is the default; the `exit`, although output may follow; or only the `close` of the output.
   */
  readonly until?: 'silence' | 'exit' | 'close';
  /** Receives all output, also that before `from`. Returns true to end. */
  readonly onOutput?: (event: Extract<ProcessEvent, { type: 'output' }>) => boolean;
  /** Ends the collection. */
  readonly stop?: AbortSignal;
}

export interface Collected extends Followed {
  readonly output: CollectedOutput;
  /** Whether there was more output than a page. */
  readonly hasMore: boolean;
  /** Whether the connection is lost, so that the state of the program is not known. */
  readonly isUnreachable: boolean;
}

/**
 * Collects the output of a process. Without `pageBytes` it waits for the end of the program. Rejects with a ClientError when the process
 * can no longer be followed.
 */
export async function collect(
  process: ExecProcess,
  known: KnownState,
  call: Call,
  options: CollectOptions,
): Promise<Collected> {
  const { from, waitMs, pageBytes = Number.POSITIVE_INFINITY, keepsPage = true, onOutput, stop } = options;
  const { until = 'silence' } = options;
  const isPage = Number.isFinite(pageBytes);
  // A page ends with the chunk that exceeds it.
  const window = new OutputWindow(from, isPage && keepsPage ? 2 * (pageBytes + MAX_CHUNK_BYTES) : undefined);
  const lastKnown = known.nextSeq - 1;
  let lastSeq = from.seq;
  let isFull = false;
  const take = (event: ProcessEvent) => {
    const seq = seqOf(event) ?? 0;
    if (seq <= from.seq) return;
    lastSeq = seq;
    isFull ||= window.size >= pageBytes;
    if (isFull) window.skip(event);
    else window.push(event);
    if (lastSeq === lastKnown) window.reconcile(known.outputBytes);
  };
  const isCaughtUp = () => isPage && known.state !== 'closed' && lastSeq >= lastKnown;
  const isOver = () => process.state.exitCode !== null && lastSeq >= lastKnown;
  const onEvent = (event: ProcessEvent) => {
    take(event);
    return (event.type === 'output' && onOutput?.(event) === true) || isCaughtUp();
  };
  if (lastSeq === lastKnown) window.reconcile(known.outputBytes);
  const endProgress = reportProgress(call, () => `waiting; ${window.size} bytes of new output`);
  try {
    const followed = isCaughtUp()
      ? presentState(process)
      : await follow(process, call, {
          waitMs,
          onEvent,
          untilQuiet: !isPage && until !== 'close',
          ...(until === 'exit' && { isOver }),
          ...(stop !== undefined && { stop }),
        });
    if (followed.end === 'failed') {
      throw followed.failure ?? new ClientError('disconnected', 'the process can no longer be followed');
    }
    const output = window.finish(followed.end === 'closed' && !isFull, pageBytes, isFull);
    return {
      ...followed,
      output,
      hasMore: isFull || output.next.seq < window.lastSeq,
      isUnreachable: followed.exitCode === null && isDisconnected(call.target.environment),
    };
  } finally {
    endProgress();
  }
}

function seqOf(event: ProcessEvent): number | null {
  if (event.type === 'lost') return event.toSeq;
  return event.type === 'failed' ? null : event.seq;
}

function presentState({ state }: ExecProcess): Followed {
  const { exitCode, signal, sandboxDenied, reason, closed } = state;
  return { end: 'stopped', exitCode, signal, sandboxDenied, reason, closed, failure: null };
}
