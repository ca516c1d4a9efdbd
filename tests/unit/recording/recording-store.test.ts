import { execFileSync } from 'node:child_process';
import {
  lutimesSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../../../src/observability/log.ts';
import type { FinishedRecording } from '../../../src/recording/recording.ts';
import { defaultDirectory, RecordingStore } from '../../../src/recording/recording-store.ts';
import { waitFor } from '../../support/wait-for.ts';

const HOUR = 3_600_000;

function openStore(maxBytes: number, maxAgeMs = Number.POSITIVE_INFINITY) {
  const directory = mkdtempSync(join(tmpdir(), 'recording-store-'));
  const log = createLogger('error', () => {});
  const store = new RecordingStore({ directory, maxRecordingBytes: 2 ** 20, maxBytes, maxAgeMs, log });
  onTestFinished(async () => {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const ids = () => readdirSync(directory).map((name) => name.replace('.cast', ''));
  return { store, directory, ids };
}

function headerOf(owner: string, ref: string) {
  const term = { cols: 80, rows: 24 };
  return { version: 3, term, timestamp: 1, exec_server: { ref, owner, tty: true } } as const;
}

/** Adds a recording of an earlier day that has ended. */
function add(directory: string, day: number, owner: string, bytes: number, ref = `ref${day}`): string {
  const id = `2026010${day}T000000000Z-${ref}`;
  const start = `${JSON.stringify(headerOf(owner, ref))}\n`;
  const end = '[0, "x", "0"]\n';
  const output = (length: number) => `[0, "o", ${JSON.stringify('x'.repeat(length))}]\n`;
  const filled = start + output(bytes - start.length - end.length - output(0).length) + end;
  writeFileSync(join(directory, `${id}.cast`), filled);
  return id;
}

/** Records a program that prints so many bytes. */
async function record(store: RecordingStore, owner: string, bytes: number): Promise<string> {
  const recording = store.record({
    header: headerOf(owner, 'live'),
    ref: 'live',
    tty: true,
    input: false,
    ended() {},
  });
  const events = recording.watch({ output() {}, exited() {}, closed() {} });
  events.output(1, 'pty', Buffer.from(`${'y'.repeat(bytes)}\n`));
  events.exited(2, 0, null, false);
  events.closed(3, null);
  await recording.end();
  return recording.recordingId;
}

test('removes the oldest recordings of the owner that has most when they take too much space', async () => {
  const { store, directory, ids } = openStore(10_000);
  const [small] = [add(directory, 1, 'small', 1_000)];
  const large = [2, 3, 4].map((day) => add(directory, day, 'large', 2_500));
  const other = join(directory, 'notes.txt');
  writeFileSync(other, 'x'.repeat(20_000));
  const live = await record(store, 'new', 3_000);
  await waitFor('the retention', () => !ids().includes(large[0]!));
  await store.close();
  expect(ids().sort()).toEqual([small, large[1], large[2], live, 'notes.txt'].sort());
});

test('removes recordings that are too old, and nothing that is no regular file', async () => {
  const { store, directory, ids } = openStore(2 ** 20, HOUR);
  const [old, young] = [add(directory, 1, 'me', 1_000), add(directory, 2, 'me', 1_000)];
  const past = new Date(Date.now() - 2 * HOUR);
  utimesSync(join(directory, `${old}.cast`), past, past);
  const link = '20260103T000000000Z-link';
  symlinkSync('/dev/null', join(directory, `${link}.cast`));
  lutimesSync(join(directory, `${link}.cast`), past, past);
  const live = await record(store, 'me', 10);
  await waitFor('the retention', () => !ids().includes(old));
  expect(ids().sort()).toEqual([young, link, live].sort());
});

test('keeps what another server still records, and says when such a file is gone', async () => {
  const { store, directory, ids } = openStore(1_000, HOUR);
  const warnings: string[] = [];
  const log = createLogger('warn', (line) => warnings.push(line));
  const other = new RecordingStore({
    directory,
    maxRecordingBytes: 2 ** 20,
    maxBytes: 2 ** 20,
    maxAgeMs: 0,
    log,
  });
  const finished: FinishedRecording[] = [];
  const header = headerOf('other', 'other');
  const live = other.record({
    header,
    ref: 'other',
    tty: true,
    input: false,
    ended: (end) => finished.push(end),
  });
  const events = live.watch({ output() {}, exited() {}, closed() {} });
  events.output(1, 'pty', Buffer.from(`${'z'.repeat(3_000)}\n`));
  await waitFor('the output', () => live.bytes > 3_000);
  const ended = add(directory, 1, 'own', 2_000);
  await record(store, 'own', 100);
  await waitFor('the removal', () => !ids().includes(ended));
  expect(ids()).toContain(live.recordingId);

  rmSync(live.path);
  events.exited(2, 0, null, false);
  await other.close();
  expect(finished).toMatchObject([{ complete: false, removed: true }]);
  expect(warnings.join()).toContain('a recording was removed before its program ended');
});

test('stops recordings that run when they alone take too much space', async () => {
  const { store } = openStore(5_000);
  const id = await record(store, 'me', 6_000);
  const found = await store.find(id);
  expect(found).toMatchObject({ state: 'incomplete' });
  expect((await store.read(found!, 0, 10_000))!.toString()).toContain(
    'all recordings together take too much space',
  );
});

test('describes files by their whole lines', async () => {
  const { store, directory } = openStore(2 ** 20);
  const id = add(directory, 1, 'me', 1_000);
  const path = join(directory, `${id}.cast`);
  expect(await store.find(id)).toMatchObject({ bytes: 1_000, state: 'complete' });
  writeFileSync(path, '[0.5, "o", "cut', { flag: 'a' });
  const torn = await store.find(id);
  expect(torn).toMatchObject({ bytes: 1_000 });
  expect((await store.read(torn!, 990, 100))!.toString()).toBe(', "x", "0"]\n'.slice(-10));
  const broken = '20260109T000000000Z-broken';
  writeFileSync(join(directory, `${broken}.cast`), 'no header\n');
  expect(await store.find(broken)).toBeNull();
  expect(await store.find('20260108T000000000Z-missing')).toBeNull();
  expect(await store.find(`../${id}`)).toBeNull();
});

test('leaves out what is no regular file, and does not wait for it', async () => {
  const { store, directory } = openStore(2 ** 20);
  const id = add(directory, 1, 'me', 1_000);
  const [pipe, link] = ['20260102T000000000Z-pipe', '20260103T000000000Z-link'];
  const at = (name: string) => join(directory, `${name}.cast`);
  execFileSync('mkfifo', [at(pipe)]);
  symlinkSync(at(id), at(link));
  const found = await store.find(id);
  expect([found?.bytes, await store.find(pipe), await store.find(link)]).toEqual([1_000, null, null]);
  expect(await store.read({ ...found!, path: at(pipe) }, 0, 10)).toBeNull();
  rmSync(at(id));
  expect(await store.read(found!, 0, 10)).toBeNull();
});

test.each([
  { timestamp: 'zz' },
  { timestamp: -1 },
  { timestamp: 1e300 },
  { command: 5 },
  { title: {} },
  { env: 'LANG=C' },
  { exec_server: 'me' },
  { exec_server: { ref: 'r', owner: 5, tty: true } },
  { exec_server: { ref: 'r', owner: 'me', name: [], tty: true } },
  { exec_server: { ref: 'r', owner: 'me', tty: 'yes' } },
])('leaves out a file whose header has %j', async (wrong) => {
  const { store, directory } = openStore(2 ** 20);
  const id = '20260101T000000000Z-wrong';
  const header = { ...headerOf('me', 'wrong'), ...wrong };
  writeFileSync(join(directory, `${id}.cast`), `${JSON.stringify(header)}\n`);
  expect(await store.find(id)).toBeNull();
});

test('records on after its directory was removed', async () => {
  const { store, directory, ids } = openStore(2 ** 20);
  await record(store, 'me', 10);
  rmSync(directory, { recursive: true });
  const id = await record(store, 'me', 10);
  expect(ids()).toEqual([id]);
});

test('finds the default directory', () => {
  expect(defaultDirectory({ XDG_STATE_HOME: '/state' })).toBe('/state/exec-server/recordings');
  expect(defaultDirectory({ XDG_STATE_HOME: 'relative' })).toMatch(
    /\/\.local\/state\/exec-server\/recordings$/,
  );
});
