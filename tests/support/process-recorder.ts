import type { ExecProcess, ProcessEvent } from '../../src/client/backend.ts';
import { waitFor } from './wait-for.ts';

/** A short form of an event: its sequence number, type and content. */
export function shortEvent(event: ProcessEvent): unknown[] {
  if (event.type === 'output') return [event.seq, event.stream, text(event.bytes)];
  if (event.type === 'exited') return [event.seq, 'exited', event.exitCode];
  return event.type === 'closed' ? [event.seq, 'closed'] : [event];
}

export async function take(events: AsyncIterator<ProcessEvent>): Promise<ProcessEvent> {
  const { done, value } = await events.next();
  if (done) throw new Error('there are no more events');
  return value;
}

export async function rest(events: AsyncIterableIterator<ProcessEvent>): Promise<ProcessEvent[]> {
  const all: ProcessEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

export function collect(process: ExecProcess): Promise<ProcessEvent[]> {
  return rest(process.events());
}

/** Collects the output of a process while it runs. */
export function collectText(process: ExecProcess): { readonly text: string; readonly streams: Set<string> } {
  const gathered = { text: '', streams: new Set<string>() };
  void (async () => {
    for await (const event of process.events()) {
      if (event.type !== 'output') continue;
      gathered.text += text(event.bytes);
      gathered.streams.add(event.stream);
    }
  })();
  return gathered;
}

/** Waits for the end, without reading the output. */
export async function closed(process: ExecProcess): Promise<void> {
  await waitFor('the end of the process', () => process.state.closed);
}

export function outputOf(events: readonly ProcessEvent[]): string {
  return events.map((event) => (event.type === 'output' ? text(event.bytes) : '')).join('');
}

export function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}
