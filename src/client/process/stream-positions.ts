import type { LostEvent, OutputStream, ProcessEvent } from '../backend.ts';

export const STREAMS: readonly OutputStream[] = ['stdout', 'stderr', 'pty'];

/** How many bytes of each stream came before an event, lost ones included. Null when unknown. */
export type StreamPositions = Record<OutputStream, number | null>;

/** The positions behind the event `seq`: unknown, unless it is 0, before the first event. */
export function positionsAfter(seq: number): StreamPositions {
  const bytes = seq === 0 ? 0 : null;
  return { stdout: bytes, stderr: bytes, pty: bytes };
}

/** Moves the positions behind an event. */
export function movePast(positions: StreamPositions, event: ProcessEvent): void {
  if (event.type === 'output') {
    const before = positions[event.stream];
    if (before !== null) positions[event.stream] = before + event.bytes.length;
  } else if (event.type === 'lost') {
    for (const stream of STREAMS) {
      const [before, size] = [positions[stream], sizeOf(event, stream)];
      positions[stream] = before === null || size === null ? null : before + size;
    }
  }
}

/**
 * Returns the events with the size of the lost ones, computed from the positions before and after all of them. A null
 * in `after` means that the lost bytes of this stream are counted later. When several gaps may contain the lost bytes
 * of a stream, the last gap before the next output of the stream counts them all.
 */
export function withLostSizes<E extends ProcessEvent>(
  events: readonly E[],
  before: Readonly<StreamPositions>,
  after: Readonly<StreamPositions>,
): readonly (E | LostEvent)[] {
  const sizes = new Map<number, Record<OutputStream, number>>();
  for (const [index, event] of events.entries()) {
    if (event.type === 'lost') sizes.set(index, { stdout: 0, stderr: 0, pty: 0 });
  }
  if (sizes.size === 0) return events;
  for (const stream of STREAMS) {
    const [from, to] = [before[stream], after[stream]];
    if (from === null) return events;
    if (to === null) continue;
    const bytes = events.reduce((rest, event) => rest - (sizeOf(event, stream) ?? 0), to - from);
    if (bytes < 0) return events;
    sizes.get(gapOf(events, stream))![stream] = bytes;
  }
  return events.map((event, index) => {
    const streamBytes = sizes.get(index);
    if (event.type !== 'lost' || streamBytes === undefined) return event;
    return { ...event, bytes: STREAMS.reduce((sum, stream) => sum + streamBytes[stream], 0), streamBytes };
  });
}

/** The index of the gap that counts the lost bytes of a stream. */
function gapOf(events: readonly ProcessEvent[], stream: OutputStream): number {
  const output = events.findIndex((event) => event.type === 'output' && event.stream === stream);
  const isLost = (event: ProcessEvent) => event.type === 'lost';
  const gap = output === -1 ? -1 : events.slice(0, output).findLastIndex(isLost);
  return gap === -1 ? events.findLastIndex(isLost) : gap;
}

function sizeOf(event: ProcessEvent, stream: OutputStream): number | null {
  if (event.type === 'lost') return event.streamBytes === null ? null : event.streamBytes[stream];
  return event.type === 'output' && event.stream === stream ? event.bytes.length : 0;
}
