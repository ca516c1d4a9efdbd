import { expect, onTestFinished } from 'vitest';
import type { ExecProcess, ProcessEvent } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import type { ProcessAttachment } from '../../src/client/sharing.ts';
import { TcpProxy } from '../../src/testing/index.ts';
import { waitFor } from './wait-for.ts';

/** A client until the end of the test. */
export async function connectTo(url: string, clientName: string): Promise<ExecServerClient> {
  const client = await ExecServerClient.connect({ url, clientName });
  onTestFinished(() => client.close());
  return client;
}

/** A client over a connection that the test can cut. */
export async function connectOverProxy(url: string, clientName: string) {
  const proxy = await TcpProxy.open(url);
  const client = await connectTo(proxy.url, clientName);
  onTestFinished(() => proxy.close());
  const cut = async (meanwhile: () => Promise<unknown> = async () => {}) => {
    proxy.interrupt();
    await waitFor('the loss', () => client.state === 'recovering');
    await meanwhile();
    proxy.restore();
    await waitFor('the recovery', () => client.state === 'connected');
  };
  return { client, cut };
}

/** Collects the events of a process and the changes of its attachment. */
export function follow(process: ExecProcess) {
  const events: ProcessEvent[] = [];
  const changes: ProcessAttachment[] = [];
  process.onAttachmentChange((change) => changes.push(change));
  const done = (async () => {
    for await (const event of process.events()) events.push(event);
  })();
  const text = () =>
    Buffer.concat(events.flatMap((event) => (event.type === 'output' ? [event.bytes] : []))).toString();
  return { events, changes, done, text };
}

/** Checks that no event is missing or repeated. Returns the number of lost bytes. */
export function expectComplete(events: readonly ProcessEvent[], afterSeq = 0): number {
  let next = afterSeq + 1;
  let lostBytes = 0;
  for (const event of events) {
    if (event.type === 'failed') throw event.error;
    expect(event.type === 'lost' ? event.fromSeq : event.seq).toBe(next);
    next = (event.type === 'lost' ? event.toSeq : event.seq) + 1;
    if (event.type === 'lost') lostBytes += event.bytes ?? Number.NaN;
  }
  expect(events.at(-1)?.type).toBe('closed');
  expect(events.filter(({ type }) => type === 'exited')).toHaveLength(1);
  return lostBytes;
}

/** The roles that a client was notified of, with the reasons. */
export const roles = (changes: readonly ProcessAttachment[]) =>
  changes.flatMap(({ role, reason }) => (reason === null ? [] : [`${role} ${reason}`]));
