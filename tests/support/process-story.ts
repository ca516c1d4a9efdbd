import type { ExecProcess, ProcessEvent } from '../../src/client/backend.ts';
import { waitFor } from './wait-for.ts';

/** An event in short: its number, what it is, and what it carries. */
export function told(event: ProcessEvent): unknown[] {
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

/** Gathers what a process says while it says it. */
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
