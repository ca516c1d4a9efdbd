import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ProcessEvent } from '../../src/client/backend.ts';
import { closed, collect, outputOf, rest, shortEvent, take, text } from './process-recorder.ts';
import type { ProcessFixture } from './process-suite.ts';
import { waitFor } from './wait-for.ts';

/** Events and output of a process. */
export function eventTests(fixture: ProcessFixture): void {
  const { extensions, start } = fixture;

  describe('a process', () => {
    test('ends with exit code 0', async () => {
      const process = await start('exit 0');
      expect(process.sandboxType).toBe('none');
      expect(await collect(process)).toEqual([
        { type: 'exited', seq: 1, exitCode: 0, sandboxDenied: false },
        { type: 'closed', seq: 2 },
      ]);
      expect(process.state).toEqual({
        ...{ signal: null, timedOut: false, reason: null },
        exited: true,
        exitCode: 0,
        closed: true,
        sandboxDenied: false,
        failure: null,
      });
    });

    test('is observed by change notifications and reads', async () => {
      const process = await start('read go; echo late; read go', { pipeStdin: true });
      const woken = new Promise<void>((resolve) => {
        const stop = process.onChange(() => {
          stop();
          resolve();
        });
      });
      expect(await process.read()).toMatchObject({ chunks: [], nextSeq: 1, exited: false, closed: false });
      expect(process.revision).toBe(0);
      await process.write('\n');
      await woken;
      const page = await process.read();
      expect(page.chunks.map(({ seq, stream, bytes }) => [seq, stream, text(bytes)])).toEqual([
        [1, 'stdout', 'late\n'],
      ]);
      await process.write('\n');
      await closed(process);
      expect(process.revision).toBe(3);
      expect(await process.read({ afterSeq: 1 })).toEqual({
        chunks: [],
        nextSeq: 4,
        exited: true,
        exitCode: 0,
        closed: true,
        failure: null,
        sandboxDenied: false,
      });
    });

    test('emits exactly these events', async () => {
      const process = await start('printf out; read go; printf err >&2; read go; exit 7', {
        pipeStdin: true,
      });
      const events = process.events();
      expect(shortEvent(await take(events))).toEqual([1, 'stdout', 'out']);
      await process.write('\n');
      expect(shortEvent(await take(events))).toEqual([2, 'stderr', 'err']);
      await process.write('\n');
      expect(shortEvent(await take(events))).toEqual([3, 'exited', 7]);
      expect(shortEvent(await take(events))).toEqual([4, 'closed']);
      expect(await events.next()).toEqual({ done: true, value: undefined });
    });

    test('replays its events after its end', async () => {
      const process = await start('printf out; read go; exit 7', { pipeStdin: true });
      await waitFor('the output', () => process.revision === 1);
      await process.write('\n');
      await closed(process);
      const replayed = [
        [1, 'stdout', 'out'],
        [2, 'exited', 7],
        [3, 'closed'],
      ];
      expect((await collect(process)).map(shortEvent)).toEqual(replayed);
      expect((await collect(process)).map(shortEvent)).toEqual(replayed);
    });

    test('can continue in a grandchild that outlives it', async () => {
      const gate = join(fixture.folder, randomUUID());
      execFileSync('mkfifo', [gate]);
      const process = await start(`(cat ${gate}) & exit 3`);
      const events = process.events();
      expect(shortEvent(await take(events))).toEqual([1, 'exited', 3]);
      expect(await process.read()).toMatchObject({ chunks: [], exited: true, exitCode: 3, closed: false });
      expect(process.state).toMatchObject({ exited: true, exitCode: 3, closed: false });
      writeFileSync(gate, 'late');
      expect(shortEvent(await take(events))).toEqual([2, 'stdout', 'late']);
      expect(shortEvent(await take(events))).toEqual([3, 'closed']);
      const page = await process.read({ afterSeq: 1 });
      expect(page.chunks.map(({ seq, bytes }) => [seq, text(bytes)])).toEqual([[2, 'late']]);
      expect(page).toMatchObject({ nextSeq: 4, closed: true });
    });

    test('loses no events for a late subscriber', async () => {
      const process = await start('echo early; read go', { pipeStdin: true });
      await waitFor('the output', () => process.revision === 1);
      const events = process.events();
      expect(shortEvent(await take(events))).toEqual([1, 'stdout', 'early\n']);
      await process.write('\n');
      expect((await rest(events)).map(shortEvent)).toEqual([
        [2, 'exited', 0],
        [3, 'closed'],
      ]);
    });

    test('is followed by any number of readers at their own pace', async () => {
      const process = await start('read go; seq 1 2000', { pipeStdin: true });
      const readers = [process.events(), process.events(), process.events()];
      await process.write('\n');
      const all = await Promise.all(readers.map(rest));
      const expected = Array.from({ length: 2000 }, (_, index) => `${index + 1}\n`).join('');
      for (const events of all) expect(outputOf(events)).toBe(expected);
      expect(all[1]).toEqual(all[0]);
      expect(all[2]).toEqual(all[0]);
    });
  });

  describe('output', () => {
    test('beyond the retention is reported as lost, and the rest arrives', async () => {
      const total = 3_000_000;
      const process = await start(`head -c ${total} /dev/zero; exit 5`);
      await closed(process);
      const events = await collect(process);
      expect(events[0]).toMatchObject({ type: 'lost', fromSeq: 1 });
      const lost = events[0] as Extract<ProcessEvent, { type: 'lost' }>;
      const kept = events.slice(1);
      expect(kept.map((event) => ('seq' in event ? event.seq : null))).toEqual(
        kept.map((_, index) => lost.toSeq + 1 + index),
      );
      expect(kept).toContainEqual(expect.objectContaining({ type: 'exited', exitCode: 5 }));
      expect(kept.at(-1)?.type).toBe('closed');
      const retainedBytes = outputOf(kept).length;
      expect(retainedBytes).toBeGreaterThan(900_000);
      expect(retainedBytes).toBeLessThanOrEqual(1024 * 1024);
    });

    test.skipIf(!extensions)('of one stream survives a flood on the other', async () => {
      const process = await start('echo error >&2; head -c 3000000 /dev/zero');
      await closed(process);
      const events = await collect(process);
      const errors = events.filter((event) => event.type === 'output' && event.stream === 'stderr');
      expect(outputOf(errors)).toBe('error\n');
      expect(events.some((event) => event.type === 'lost')).toBe(true);
      expect(events.slice(-2).map(({ type }) => type)).toEqual(['exited', 'closed']);
    });

    test('is read in pages', async () => {
      const process = await start('printf a; read go; printf bc; read go; printf d; read go', {
        pipeStdin: true,
      });
      for (const seq of [1, 2, 3]) {
        await waitFor('the output', () => process.revision === seq);
        await process.write('\n');
      }
      await closed(process);
      const pages = [];
      for (let afterSeq = 0; ; ) {
        const page = await process.read({ afterSeq, maxBytes: 2 });
        pages.push([page.chunks.map(({ bytes }) => text(bytes)).join('|'), page.nextSeq]);
        if (page.chunks.length === 0) break;
        afterSeq = page.nextSeq - 1;
      }
      expect(pages).toEqual([
        ['a', 2],
        ['bc', 3],
        ['d', 4],
        ['', 6],
      ]);
    });

    test('is awaited up to the given time', async () => {
      const process = await start('read go; echo there; read go', { pipeStdin: true });
      expect(await process.read({ waitMs: 20 })).toMatchObject({ chunks: [], nextSeq: 1 });
      const waiting = process.read({ waitMs: 60_000 });
      await process.write('\n');
      const { chunks } = await waiting;
      expect(chunks.map(({ bytes }) => text(bytes))).toEqual(['there\n']);
      await process.write('\n');
      await closed(process);
      expect(await process.read({ afterSeq: 3, waitMs: 60_000 })).toMatchObject({
        chunks: [],
        closed: true,
      });
    });

    test('wait ends when it is aborted', async () => {
      const process = await start('read go', { pipeStdin: true });
      const giveUp = new AbortController();
      const waiting = process.read({ waitMs: 60_000, signal: giveUp.signal });
      giveUp.abort();
      await expect(waiting).rejects.toMatchObject({ name: 'ClientError', kind: 'aborted' });
      const late = process.read({ waitMs: 60_000, timeoutMs: 10 });
      await expect(late).rejects.toMatchObject({ name: 'ClientError', kind: 'timeout' });
      const stop = new AbortController();
      const event = process.events({ signal: stop.signal }).next();
      stop.abort();
      await expect(event).rejects.toMatchObject({ name: 'ClientError', kind: 'aborted' });
      expect(await process.terminate()).toBe(true);
      await closed(process);
    });
  });
}
