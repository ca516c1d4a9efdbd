import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Dispatcher, type Job, type Slot } from '../../../src/rpc/dispatcher.ts';
import {
  MAX_PARKED_REQUESTS,
  MAX_QUEUED_REQUESTS,
  MAX_REQUESTS_BEYOND_SLOTS,
} from '../../../src/rpc/limits.ts';

const MAX_BYTES = 1_000_000;

/** A dispatcher whose jobs run until the test finishes them. */
class TestDispatcher {
  /** Names of the jobs that have started, in order. */
  readonly started: string[] = [];
  readonly receiving: boolean[] = [];
  readonly dispatcher: Dispatcher;
  readonly #running = new Map<string, { readonly finish: () => void; readonly slot: Slot }>();

  constructor(slots: number) {
    this.dispatcher = new Dispatcher(slots, MAX_BYTES, (open) => this.receiving.push(open));
  }

  submit(name: string, options: Partial<Pick<Job, 'lane' | 'subject' | 'bytes'>> = {}): void {
    this.dispatcher.submit({
      lane: 'ordinary',
      subject: null,
      bytes: 1,
      ...options,
      run: (slot) => {
        this.started.push(name);
        return new Promise((resolve) => this.#running.set(name, { finish: resolve, slot }));
      },
    });
  }

  async finish(name: string): Promise<void> {
    this.#running.get(name)!.finish();
    this.#running.delete(name);
    await settled();
  }

  park(name: string): void {
    this.#running.get(name)!.slot.park();
  }

  get running(): number {
    return this.#running.size;
  }

  async finishOldest(): Promise<void> {
    const [oldest] = this.#running.keys();
    if (oldest !== undefined) await this.finish(oldest);
  }

  parkOldest(): void {
    const [oldest] = this.#running.keys();
    if (oldest !== undefined) this.park(oldest);
  }
}

const settled = () => new Promise(setImmediate);

async function isIdle(dispatcher: Dispatcher): Promise<boolean> {
  return Promise.race([dispatcher.idle().then(() => true), settled().then(() => false)]);
}

test('ordinary jobs share the slots and start in order as they become free', async () => {
  const harness = new TestDispatcher(2);
  for (const name of ['a', 'b', 'c', 'd']) harness.submit(name);
  expect(harness.started).toEqual(['a', 'b']);
  await harness.finish('b');
  expect(harness.started).toEqual(['a', 'b', 'c']);
  await harness.finish('a');
  await harness.finish('c');
  harness.submit('e');
  expect(harness.started).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('control jobs neither take nor free a slot', async () => {
  const harness = new TestDispatcher(1);
  harness.submit('a');
  harness.submit('b');
  harness.submit('c1', { lane: 'control' });
  harness.submit('c2', { lane: 'control', subject: 'p' });
  expect(harness.started).toEqual(['a', 'c1', 'c2']);
  await harness.finish('c1');
  await harness.finish('c2');
  expect(harness.started).toEqual(['a', 'c1', 'c2']);
  await harness.finish('a');
  expect(harness.started.at(-1)).toBe('b');
});

test('a control job first starts the earlier jobs about its subject, in order', async () => {
  const harness = new TestDispatcher(1);
  harness.submit('busy');
  harness.submit('p1', { subject: 'p' });
  harness.submit('q1', { subject: 'q' });
  harness.submit('p2', { subject: 'p' });
  harness.submit('n1');
  harness.submit('stop p', { lane: 'control', subject: 'p' });
  expect(harness.started).toEqual(['busy', 'p1', 'p2', 'stop p']);
  await harness.finish('busy');
  expect(harness.started).toHaveLength(4);
  await harness.finish('p1');
  expect(harness.started).toHaveLength(4);
  await harness.finish('p2');
  expect(harness.started.slice(4)).toEqual(['q1']);
});

test('a parked job frees its slot once', async () => {
  const harness = new TestDispatcher(1);
  for (const name of ['a', 'b', 'c']) harness.submit(name);
  harness.park('a');
  harness.park('a');
  expect(harness.started).toEqual(['a', 'b']);
  await harness.finish('a');
  expect(harness.started).toEqual(['a', 'b']);
  await harness.finish('b');
  expect(harness.started).toEqual(['a', 'b', 'c']);
});

test('parking a control job frees no slot', () => {
  const harness = new TestDispatcher(1);
  harness.submit('a');
  harness.submit('control', { lane: 'control' });
  harness.submit('b');
  harness.park('control');
  expect(harness.started).toEqual(['a', 'control']);
});

test('a job keeps its slot when too many are parked', async () => {
  const harness = new TestDispatcher(1);
  for (let index = 0; index <= MAX_PARKED_REQUESTS; index++) {
    harness.submit(`w${index}`);
    harness.park(`w${index}`);
  }
  harness.submit('next');
  expect(harness.started).not.toContain('next');
  await harness.finish('w0');
  expect(harness.started).not.toContain('next');
  harness.park(`w${MAX_PARKED_REQUESTS}`);
  expect(harness.started).toContain('next');
});

test('any number of queued jobs may park as soon as they run', async () => {
  const dispatcher = new Dispatcher(1, MAX_BYTES, () => undefined);
  let endFirst = () => {};
  let deepest = 0;
  const submit = (run: Job['run']) => dispatcher.submit({ lane: 'ordinary', subject: null, bytes: 1, run });
  submit(() => new Promise((resolve) => (endFirst = resolve)));
  let depth = 0;
  for (let index = 0; index < MAX_PARKED_REQUESTS; index++) {
    submit(({ park }) => {
      deepest = Math.max(deepest, ++depth);
      park();
      depth--;
      return new Promise(() => {});
    });
  }
  endFirst();
  await settled();
  expect(deepest).toBe(1);
});

test('stops receiving at the limit of queued jobs and resumes below it', async () => {
  const harness = new TestDispatcher(1);
  for (let index = 0; index < MAX_QUEUED_REQUESTS; index++) harness.submit(`j${index}`);
  expect(harness.receiving).toEqual([]);
  harness.submit('last');
  expect(harness.receiving).toEqual([false]);
  await harness.finish('j0');
  expect(harness.receiving).toEqual([false, true]);
});

test('stops receiving at the limit of bytes and resumes below it', async () => {
  const harness = new TestDispatcher(1);
  harness.submit('busy', { bytes: MAX_BYTES / 2 });
  harness.submit('queued', { bytes: MAX_BYTES / 2 - 1 });
  expect(harness.receiving).toEqual([]);
  harness.submit('last', { bytes: 1, lane: 'control' });
  expect(harness.receiving).toEqual([false]);
  await harness.finish('last');
  expect(harness.receiving).toEqual([false, true]);
  harness.submit('again', { bytes: MAX_BYTES });
  expect(harness.receiving).toEqual([false, true, false]);
  harness.dispatcher.clear();
  await harness.finish('busy');
  expect(harness.receiving).toEqual([false, true, false, true]);
});

test('bytes of parked jobs do not stop receiving, but further ones are refused', async () => {
  const harness = new TestDispatcher(2);
  harness.submit('stuck', { bytes: MAX_BYTES });
  expect(harness.receiving).toEqual([false]);
  harness.park('stuck');
  expect(harness.receiving).toEqual([false, true]);
  expect(harness.dispatcher.overloads(1)).toBe(true);
  await harness.finish('stuck');
  expect(harness.dispatcher.overloads(MAX_BYTES + 1)).toBe(false);
  harness.submit('waiting', { bytes: 10 });
  harness.park('waiting');
  expect(harness.dispatcher.overloads(MAX_BYTES - 10)).toBe(false);
  expect(harness.dispatcher.overloads(MAX_BYTES - 9)).toBe(true);
});

test('resumes receiving when a control job empties the queue', () => {
  const harness = new TestDispatcher(1);
  for (let index = 0; index <= MAX_QUEUED_REQUESTS; index++) harness.submit(`j${index}`, { subject: 'p' });
  harness.submit('stop', { lane: 'control', subject: 'p' });
  expect(harness.receiving).toEqual([false, true]);
});

test('stops receiving when control jobs and the jobs they start never end', async () => {
  const harness = new TestDispatcher(2);
  for (let index = 0; index < MAX_REQUESTS_BEYOND_SLOTS + 1; index++) {
    harness.submit(`c${index}`, { lane: 'control' });
  }
  expect(harness.receiving).toEqual([]);
  harness.submit('one more', { lane: 'control' });
  expect(harness.receiving).toEqual([false]);
  await harness.finish('c0');
  expect(harness.receiving).toEqual([false, true]);
});

test('while held, receives nothing and starts only control jobs', async () => {
  const harness = new TestDispatcher(2);
  harness.submit('a');
  harness.dispatcher.setHeld(true);
  expect(harness.receiving).toEqual([false]);
  harness.submit('b');
  harness.submit('control', { lane: 'control' });
  await harness.finish('a');
  expect(harness.started).toEqual(['a', 'control']);
  harness.dispatcher.setHeld(false);
  expect(harness.receiving).toEqual([false, true]);
  expect(harness.started).toEqual(['a', 'control', 'b']);
});

test('a job that causes a hold stops the queued ones', () => {
  const started: string[] = [];
  const dispatcher = new Dispatcher(10, MAX_BYTES, () => undefined);
  const job = (name: string): Job => ({
    lane: 'ordinary',
    subject: null,
    bytes: 1,
    run: async () => {
      started.push(name);
      if (name === 'b') dispatcher.setHeld(true);
    },
  });
  dispatcher.setHeld(true);
  for (const name of ['a', 'b', 'c']) dispatcher.submit(job(name));
  dispatcher.setHeld(false);
  expect(started).toEqual(['a', 'b']);
});

test('idle means that nothing is queued or running, including parked and control jobs', async () => {
  const harness = new TestDispatcher(1);
  expect(await isIdle(harness.dispatcher)).toBe(true);
  harness.submit('a');
  harness.submit('b');
  harness.submit('control', { lane: 'control' });
  harness.park('a');
  await harness.finish('control');
  await harness.finish('b');
  expect(await isIdle(harness.dispatcher)).toBe(false);
  const idle = harness.dispatcher.idle();
  await harness.finish('a');
  await idle;
});

test('drops jobs that have not started and calls their dropped callback', async () => {
  const harness = new TestDispatcher(1);
  harness.submit('a');
  harness.submit('b');
  harness.dispatcher.clear();
  await harness.finish('a');
  expect(harness.started).toEqual(['a']);
  harness.dispatcher.setHeld(true);
  harness.submit('c');
  const idle = harness.dispatcher.idle();
  harness.dispatcher.clear();
  await idle;
  expect(harness.started).toEqual(['a']);
});

test('jobs about one subject always start, in arrival order', async () => {
  const step = fc.record({
    kind: fc.constantFrom('ordinary', 'ordinary', 'control', 'finish', 'park', 'hold', 'release'),
    subject: fc.constantFrom('p', 'q', 'r'),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, slots) => {
        const harness = new TestDispatcher(slots);
        const submitted: string[] = [];
        for (const [index, { kind, subject }] of steps.entries()) {
          if (kind === 'finish') await harness.finishOldest();
          else if (kind === 'park') harness.parkOldest();
          else if (kind === 'hold' || kind === 'release') harness.dispatcher.setHeld(kind === 'hold');
          else {
            submitted.push(`${subject}${index}`);
            harness.submit(submitted.at(-1)!, { subject, lane: kind as Job['lane'] });
          }
        }
        harness.dispatcher.setHeld(false);
        const idle = harness.dispatcher.idle();
        while (harness.running > 0) await harness.finishOldest();
        await idle;
        for (const subject of 'pqr') {
          const about = (names: readonly string[]) => names.filter((name) => name.startsWith(subject));
          expect(about(harness.started)).toEqual(about(submitted));
        }
      },
    ),
    { numRuns: 200 },
  );
});
