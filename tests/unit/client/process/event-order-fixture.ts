import { expect } from 'vitest';
import type { ReadPage } from '../../../../src/client/backend.ts';
import {
  EventOrder,
  type OrderedEvent,
  type SequencedEvent,
} from '../../../../src/client/process/event-order.ts';

export const output = (seq: number, text = `<${seq}>`): SequencedEvent => ({
  type: 'output',
  seq,
  stream: 'stdout',
  bytes: Buffer.from(text),
});
export const exited = (seq: number, exitCode = 0, sandboxDenied = false): SequencedEvent => ({
  type: 'exited',
  seq,
  exitCode,
  sandboxDenied,
});
export const closed = (seq: number): SequencedEvent => ({ type: 'closed', seq });
export const lost = (fromSeq: number, toSeq: number, bytes: number | null = null): OrderedEvent => ({
  type: 'lost',
  fromSeq,
  toSeq,
  bytes,
  streamBytes: bytes === null ? null : { stdout: bytes, stderr: 0, pty: 0 },
});
/** A position at which only stdout had output. */
export const position = (stdout: number | null, exitSeq: number | null = null) => ({
  streamBytes: { stdout, stderr: 0, pty: 0 },
  exitSeq,
});

/** A page with output of these sequence numbers. */
export function page(nextSeq: number, seqs: readonly number[], rest: Partial<ReadPage> = {}): ReadPage {
  return {
    chunks: seqs.map((seq) => ({ seq, stream: 'stdout' as const, bytes: Buffer.from(`<${seq}>`) })),
    nextSeq,
    exited: false,
    exitCode: null,
    closed: false,
    failure: null,
    sandboxDenied: false,
    ...rest,
  };
}

/** An order that has got these events, and what it has published. */
export function order(...events: SequencedEvent[]) {
  const published: OrderedEvent[] = [];
  const subject = new EventOrder((event) => published.push(event));
  for (const event of events) expect(subject.insert(event)).toBe(true);
  return { subject, published };
}
