import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExecBackend, ProcessEvent, StartParams } from '../../src/client/backend.ts';
import { closed, collect, collectText, outputOf, rest, shortEvent, take, text } from './process-recorder.ts';
import { plain } from './programs.ts';
import { waitFor } from './wait-for.ts';

export interface BackendUnderTest {
  readonly backend: ExecBackend;
  close(): Promise<void>;
}

export interface SuiteOptions {
  /** False for a server without extensions. */
  readonly extensions?: boolean;
  /** Why the suite is skipped. */
  readonly skipped?: string | null;
}

/** The behavior that every backend shares. Each test uses its own processes in one backend. */
export function processSuite(
  name: string,
  open: () => Promise<BackendUnderTest>,
  { extensions = true, skipped = null }: SuiteOptions = {},
): void {
  const title = skipped === null ? name : `${name} (skipped: ${skipped})`;
  describe.skipIf(skipped !== null)(title, () => {
    let underTest: BackendUnderTest;
    let folder: string;

    beforeAll(async () => {
      folder = realpathSync(mkdtempSync(join(tmpdir(), 'processes-')));
      underTest = await open();
    });

    afterAll(async () => {
      await underTest?.close();
      rmSync(folder, { recursive: true });
    });

    const start = (script: string, options: Partial<StartParams> = {}) =>
      underTest.backend.start({ ...program(script), cwd: `file://${folder}`, ...options });

    describe('a process', () => {
      test('ends with exit code 0', async () => {
        const process = await start('exit 0');
        expect(process.sandboxType).toBe('none');
        expect(await collect(process)).toEqual([
          { type: 'exited', seq: 1, exitCode: 0, sandboxDenied: false },
          { type: 'closed', seq: 2 },
        ]);
        expect(process.state).toEqual({
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
        const gate = join(folder, randomUUID());
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

    describe('input', () => {
      test('reaches a terminal', async () => {
        const process = await start('stty size; read name; echo "hello $name"', { tty: true });
        const screen = collectText(process);
        await waitFor('the size', () => screen.text.includes('24 80'));
        expect(await process.write('bob\n')).toBe('accepted');
        await closed(process);
        expect(screen.text).toBe('24 80\r\nbob\r\nhello bob\r\n');
        expect(screen.streams).toEqual(new Set(['pty']));
      });

      test('reaches a pipe, in order and unchanged', async () => {
        const process = await start('head -c 300003 | sha256sum', { pipeStdin: true });
        const input = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7 + (index >> 8)) % 256);
        const writes = [process.write(input), process.write('é'), process.write(Uint8Array.of(255))];
        expect(await Promise.all(writes)).toEqual(['accepted', 'accepted', 'accepted']);
        const whole = Buffer.concat([input, Buffer.from('é'), Buffer.of(255)]);
        const expected = execFileSync('sha256sum', { input: whole }).toString();
        expect(outputOf(await collect(process))).toBe(expected);
      });

      test('may be modified by its owner after the write', async () => {
        const process = await start('head -c 4', { pipeStdin: true });
        const input = Buffer.from('good');
        const written = process.write(input);
        input.fill('x');
        await written;
        expect(outputOf(await collect(process))).toBe('good');
      });

      test('is at end of file from the start when none was requested', async () => {
        const process = await start('cat; echo end; read go');
        expect(await process.write('x')).toBe('stdinClosed');
        expect(outputOf(await collect(process))).toBe('end\n');
      });

      test('ends after everything that was written', async () => {
        const process = await start('cat; echo end', { pipeStdin: true });
        const ending = async () => {
          await process.write('in\n');
          return process.closeStdin();
        };
        if (!extensions) {
          await expect(ending()).rejects.toMatchObject({ kind: 'unsupported' });
          await process.terminate();
          return;
        }
        expect(await ending()).toBe(true);
        expect(outputOf(await collect(process))).toBe('in\nend\n');
        expect(await process.closeStdin()).toBe(false);
      });
    });

    describe('control', () => {
      test('an interrupt runs the trap', async () => {
        const process = await start(
          'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.1; done',
        );
        const screen = collectText(process);
        await waitFor('the trap', () => screen.text.includes('ready'));
        await process.signal('interrupt');
        await closed(process);
        expect(screen.text).toBe('ready\ncaught\n');
        expect(process.state.exitCode).toBe(7);
        await process.signal('interrupt');
      });

      test('sends any signal by name', async () => {
        const process = await start('read go', { pipeStdin: true });
        if (extensions) {
          await process.signal('SIGTERM');
          await closed(process);
          expect(process.state.exitCode).toBe(128 + 15);
          const unknown = process.signal('SIGNONE');
          await expect(unknown).rejects.toMatchObject({ kind: 'server', code: -32602 });
        } else {
          await expect(process.signal('SIGTERM')).rejects.toMatchObject({ kind: 'unsupported' });
          await process.terminate();
        }
      });

      test('terminates a process once', async () => {
        const process = await start('read go', { pipeStdin: true });
        expect(await process.terminate()).toBe(true);
        await closed(process);
        expect(process.state.exitCode).toBe(137);
        expect(await process.terminate()).toBe(false);
      });

      test('terminates a process gracefully', async () => {
        const process = await start('trap "exit 9" TERM; echo ready; while :; do sleep 0.1; done');
        await waitFor('the trap', () => process.revision === 1);
        const ending = process.terminate({ type: 'graceful', timeoutMs: 60_000 });
        if (extensions) {
          expect(await ending).toBe(true);
          await closed(process);
          expect(process.state.exitCode).toBe(9);
        } else {
          await expect(ending).rejects.toMatchObject({ kind: 'unsupported' });
          await process.terminate();
        }
      });

      test('resizes a terminal', async () => {
        const size = { rows: 10, cols: 20 };
        const process = await start('stty size; read go; stty size', { tty: true, size });
        await waitFor('the size', () => process.revision >= 1);
        if (!extensions) {
          await expect(process.resize(30, 40)).rejects.toMatchObject({ kind: 'unsupported' });
          await process.terminate();
          return;
        }
        await process.resize(30, 40);
        await process.write('\n');
        expect(outputOf(await collect(process))).toBe('10 20\r\n\r\n30 40\r\n');
      });

      test('refuses to resize a process without a terminal', async () => {
        const process = await start('read go', { pipeStdin: true });
        const resized = process.resize(30, 40);
        const expected = extensions ? { kind: 'server', code: -32600 } : { kind: 'unsupported' };
        await expect(resized).rejects.toMatchObject(expected);
        await process.terminate();
        await closed(process);
      });
    });

    describe('start', () => {
      test('passes arguments, directory and variables to the program', async () => {
        const process = await start('', {
          argv: ['/bin/sh', '-c', 'echo "$0|$1|$A|$CODEX_TOOL_CALL_ID"; pwd; env | wc -l', 'zero', 'one two'],
          env: { A: 'ä' },
          metadata: { toolCallId: 'call' },
        });
        const [first, directory] = outputOf(await collect(process)).split('\n');
        expect(first).toBe('zero|one two|ä|call');
        expect(directory).toBe(folder);
      });

      test('can inherit variables of the executor', async () => {
        const process = await start('echo "$HOME|$SECRET_OF_MINE"', {
          env: { SECRET_OF_MINE: 'laid over' },
          envPolicy: {
            inherit: 'core',
            ignoreDefaultExcludes: false,
            exclude: [],
            set: { HOME: '/elsewhere' },
            includeOnly: [],
          },
        });
        expect(outputOf(await collect(process))).toBe('/elsewhere|laid over\n');
      });

      test.each<[string, Partial<StartParams>, number]>([
        ['a program that does not exist', { argv: ['/no/such/program'] }, -32603],
        ['no program', { argv: [] }, -32602],
        ['a directory that does not exist', { cwd: 'file:///no/such/directory' }, -32603],
        ['a directory that is no URI', { cwd: '/tmp' }, -32602],
        ['a directory of another system', { cwd: 'file:///C:/x' }, -32602],
        ['a thread id that is none', { metadata: { threadId: 'x' } }, -32602],
      ])('refuses %s', async (_name, params, code) => {
        await expect(start('', params)).rejects.toMatchObject({ name: 'ClientError', kind: 'server', code });
      });

      test('refuses an id in use, without side effects', async () => {
        const processId = randomUUID();
        const process = await start('read go; echo alive', { processId, pipeStdin: true });
        await closed(await start('exit 0'));
        const second = start('echo second', { processId });
        await expect(second).rejects.toMatchObject({ name: 'ClientError' });
        await process.write('\n');
        expect(outputOf(await collect(process))).toBe('alive\n');
      });

      test('refuses the id of a process that has just ended', async () => {
        const processId = randomUUID();
        await closed(await start('exit 0', { processId }));
        const second = start('exit 0', { processId });
        await expect(second).rejects.toMatchObject({ kind: 'server', code: -32600 });
      });

      test('leaves the id free when it is refused', async () => {
        const processId = randomUUID();
        await expect(start('', { processId, argv: ['/no/such/program'] })).rejects.toThrow();
        expect(outputOf(await collect(await start('echo second', { processId })))).toBe('second\n');
      });

      test('is not sent when it was aborted before', async () => {
        const mark = join(folder, randomUUID());
        const given = start(`touch ${mark}`, {});
        await closed(await given);
        const signal = AbortSignal.abort();
        const attempt = underTest.backend.start(
          { ...program(`touch ${mark}-aborted`), cwd: `file://${folder}` },
          { signal },
        );
        await expect(attempt).rejects.toMatchObject({ name: 'ClientError', kind: 'aborted' });
        expect(execFileSync('ls', [folder]).toString()).not.toContain('aborted');
      });
    });
  });
}

/** Start params of a shell script with a unique id. */
function program(script: string): StartParams {
  return { processId: randomUUID(), argv: ['/bin/sh', '-c', script], ...plain };
}
