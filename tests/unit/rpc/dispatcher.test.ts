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
  readonly intake: boolean[] = [];
  readonly dispatcher: Dispatcher;
  readonly #running = new Map<string, { readonly finish: () => void; readonly slot: Slot }>();

  constructor(slots: number) {
    this.dispatcher = new Dispatcher(slots, MAX_BYTES, (open) => this.intake.push(open));
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
  const shop = new TestDispatcher(2);
  for (const name of ['a', 'b', 'c', 'd']) shop.submit(name);
  expect(shop.started).toEqual(['a', 'b']);
  await shop.finish('b');
  expect(shop.started).toEqual(['a', 'b', 'c']);
  await shop.finish('a');
  await shop.finish('c');
  shop.submit('e');
  expect(shop.started).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('control jobs need no slot and give none back', async () => {
  const shop = new TestDispatcher(1);
  shop.submit('a');
  shop.submit('b');
  shop.submit('c1', { lane: 'control' });
  shop.submit('c2', { lane: 'control', subject: 'p' });
  expect(shop.started).toEqual(['a', 'c1', 'c2']);
  await shop.finish('c1');
  await shop.finish('c2');
  expect(shop.started).toEqual(['a', 'c1', 'c2']);
  await shop.finish('a');
  expect(shop.started.at(-1)).toBe('b');
});

test('a control job pulls the earlier jobs about its subject along, in order, and no others', async () => {
  const shop = new TestDispatcher(1);
  shop.submit('busy');
  shop.submit('p1', { subject: 'p' });
  shop.submit('q1', { subject: 'q' });
  shop.submit('p2', { subject: 'p' });
  shop.submit('n1');
  shop.submit('stop p', { lane: 'control', subject: 'p' });
  expect(shop.started).toEqual(['busy', 'p1', 'p2', 'stop p']);
  await shop.finish('busy');
  expect(shop.started).toHaveLength(4);
  await shop.finish('p1');
  expect(shop.started).toHaveLength(4);
  await shop.finish('p2');
  expect(shop.started.slice(4)).toEqual(['q1']);
});

test('a parked job gives its slot away, once', async () => {
  const shop = new TestDispatcher(1);
  for (const name of ['a', 'b', 'c']) shop.submit(name);
  shop.park('a');
  shop.park('a');
  expect(shop.started).toEqual(['a', 'b']);
  await shop.finish('a');
  expect(shop.started).toEqual(['a', 'b']);
  await shop.finish('b');
  expect(shop.started).toEqual(['a', 'b', 'c']);
});

test('a control job has no slot to give away', () => {
  const shop = new TestDispatcher(1);
  shop.submit('a');
  shop.submit('control', { lane: 'control' });
  shop.submit('b');
  shop.park('control');
  expect(shop.started).toEqual(['a', 'control']);
});

test('when too many are parked the next keeps its slot', async () => {
  const shop = new TestDispatcher(1);
  for (let index = 0; index <= MAX_PARKED_REQUESTS; index++) {
    shop.submit(`w${index}`);
    shop.park(`w${index}`);
  }
  shop.submit('next');
  expect(shop.started).not.toContain('next');
  await shop.finish('w0');
  expect(shop.started).not.toContain('next');
  shop.park(`w${MAX_PARKED_REQUESTS}`);
  expect(shop.started).toContain('next');
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

test('the intake closes at the cap of queued jobs and opens below it', async () => {
  const shop = new TestDispatcher(1);
  for (let index = 0; index < MAX_QUEUED_REQUESTS; index++) shop.submit(`j${index}`);
  expect(shop.intake).toEqual([]);
  shop.submit('last');
  expect(shop.intake).toEqual([false]);
  await shop.finish('j0');
  expect(shop.intake).toEqual([false, true]);
});

test('the intake closes at the cap of bytes under way and opens below it', async () => {
  const shop = new TestDispatcher(1);
  shop.submit('busy', { bytes: MAX_BYTES / 2 });
  shop.submit('queued', { bytes: MAX_BYTES / 2 - 1 });
  expect(shop.intake).toEqual([]);
  shop.submit('last', { bytes: 1, lane: 'control' });
  expect(shop.intake).toEqual([false]);
  await shop.finish('last');
  expect(shop.intake).toEqual([false, true]);
  shop.submit('again', { bytes: MAX_BYTES });
  expect(shop.intake).toEqual([false, true, false]);
  shop.dispatcher.clear();
  await shop.finish('busy');
  expect(shop.intake).toEqual([false, true, false, true]);
});

test('bytes that wait for somebody outside hold up nobody, but no more are taken', async () => {
  const shop = new TestDispatcher(2);
  shop.submit('stuck', { bytes: MAX_BYTES });
  expect(shop.intake).toEqual([false]);
  shop.park('stuck');
  expect(shop.intake).toEqual([false, true]);
  expect(shop.dispatcher.overloads(1)).toBe(true);
  await shop.finish('stuck');
  expect(shop.dispatcher.overloads(MAX_BYTES + 1)).toBe(false);
  shop.submit('waiting', { bytes: 10 });
  shop.park('waiting');
  expect(shop.dispatcher.overloads(MAX_BYTES - 10)).toBe(false);
  expect(shop.dispatcher.overloads(MAX_BYTES - 9)).toBe(true);
});

test('the intake opens when a control job empties the queue', () => {
  const shop = new TestDispatcher(1);
  for (let index = 0; index <= MAX_QUEUED_REQUESTS; index++) shop.submit(`j${index}`, { subject: 'p' });
  shop.submit('stop', { lane: 'control', subject: 'p' });
  expect(shop.intake).toEqual([false, true]);
});

test('the intake closes when control jobs, and what they pull along, never end', async () => {
  const shop = new TestDispatcher(2);
  for (let index = 0; index < MAX_REQUESTS_BEYOND_SLOTS + 1; index++) {
    shop.submit(`c${index}`, { lane: 'control' });
  }
  expect(shop.intake).toEqual([]);
  shop.submit('one more', { lane: 'control' });
  expect(shop.intake).toEqual([false]);
  await shop.finish('c0');
  expect(shop.intake).toEqual([false, true]);
});

test('while held nothing is read and no ordinary job starts, but control jobs do', async () => {
  const shop = new TestDispatcher(2);
  shop.submit('a');
  shop.dispatcher.setHeld(true);
  expect(shop.intake).toEqual([false]);
  shop.submit('b');
  shop.submit('control', { lane: 'control' });
  await shop.finish('a');
  expect(shop.started).toEqual(['a', 'control']);
  shop.dispatcher.setHeld(false);
  expect(shop.intake).toEqual([false, true]);
  expect(shop.started).toEqual(['a', 'control', 'b']);
});

test('a job that gets everything held again stops the ones behind it', () => {
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

test('idle means that nothing is queued or running, parked and control jobs included', async () => {
  const shop = new TestDispatcher(1);
  expect(await isIdle(shop.dispatcher)).toBe(true);
  shop.submit('a');
  shop.submit('b');
  shop.submit('control', { lane: 'control' });
  shop.park('a');
  await shop.finish('control');
  await shop.finish('b');
  expect(await isIdle(shop.dispatcher)).toBe(false);
  const idle = shop.dispatcher.idle();
  await shop.finish('a');
  await idle;
});

test('what has not started can be dropped, and what waited for it is told', async () => {
  const shop = new TestDispatcher(1);
  shop.submit('a');
  shop.submit('b');
  shop.dispatcher.clear();
  await shop.finish('a');
  expect(shop.started).toEqual(['a']);
  shop.dispatcher.setHeld(true);
  shop.submit('c');
  const idle = shop.dispatcher.idle();
  shop.dispatcher.clear();
  await idle;
  expect(shop.started).toEqual(['a']);
});

test('jobs about one subject start in the order they came, and all of them do, whatever else happens', async () => {
  const step = fc.record({
    kind: fc.constantFrom('ordinary', 'ordinary', 'control', 'finish', 'park', 'hold', 'release'),
    subject: fc.constantFrom('p', 'q', 'r'),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, slots) => {
        const shop = new TestDispatcher(slots);
        const submitted: string[] = [];
        for (const [index, { kind, subject }] of steps.entries()) {
          if (kind === 'finish') await shop.finishOldest();
          else if (kind === 'park') shop.parkOldest();
          else if (kind === 'hold' || kind === 'release') shop.dispatcher.setHeld(kind === 'hold');
          else {
            submitted.push(`${subject}${index}`);
            shop.submit(submitted.at(-1)!, { subject, lane: kind as Job['lane'] });
          }
        }
        shop.dispatcher.setHeld(false);
        const idle = shop.dispatcher.idle();
        while (shop.running > 0) await shop.finishOldest();
        await idle;
        for (const subject of 'pqr') {
          const about = (names: readonly string[]) => names.filter((name) => name.startsWith(subject));
          expect(about(shop.started)).toEqual(about(submitted));
        }
      },
    ),
    { numRuns: 200 },
  );
});
