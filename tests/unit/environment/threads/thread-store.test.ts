import {
  appendFileSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  MAX_SELECTED_ROOTS,
  MAX_THREAD_BYTES,
  MAX_THREAD_RECORD_BYTES,
} from '../../../../src/environment/limits.ts';
import { ThreadStore } from '../../../../src/environment/threads/thread-store.ts';
import { rootIn } from '../capability-roots/support.ts';

const root = rootIn('worker', 'plugin@1');

let folder: string;
let store: ThreadStore;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'threads-'));
  store = await ThreadStore.open(folder);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The path of the only file in the folder. */
function onlyFile(): string {
  const names = readdirSync(folder);
  expect(names).toHaveLength(1);
  return join(folder, names[0]!);
}

describe('a thread', () => {
  it('has its selection in the first record and is restored with it', async () => {
    const log = await store.create('t', { roots: [root], metadata: { cwd: '/work' } });
    await log.append({ user: 'hello' });
    await log.append({ assistant: 'hi' });
    const [first] = readFileSync(onlyFile(), 'utf8').split('\n');
    expect(JSON.parse(first!)).toEqual({
      thread_id: 't',
      cwd: '/work',
      selected_capability_roots: [
        {
          id: 'plugin@1',
          location: { type: 'environment', environmentId: 'worker', path: 'file:///roots/plugin@1' },
        },
      ],
    });
    const resumed = await (await ThreadStore.open(folder)).resume('t');
    expect(resumed).toMatchObject({
      id: 't',
      metadata: { cwd: '/work' },
      roots: [root],
      turns: [{ user: 'hello' }, { assistant: 'hi' }],
      damage: [],
    });
  });

  it('of an older version has no selection', async () => {
    await store.create('t');
    writeFileSync(onlyFile(), '{"thread_id":"t","cwd":"/"}\n{"user":"hello"}\n');
    expect(await store.resume('t')).toMatchObject({ roots: [], turns: [{ user: 'hello' }] });
  });

  it.skipIf(process.platform !== 'linux')(
    'is refused below /proc, where no folder can be created',
    async () => {
      await expect(ThreadStore.open('/proc/no/such/folder')).rejects.toMatchObject({
        kind: 'notFound',
        message: expect.stringContaining('the thread store /proc/no/such/folder cannot be opened'),
      });
      writeFileSync(join(folder, 'file'), '');
      await expect(ThreadStore.open(join(folder, 'file'))).rejects.toMatchObject({ kind: 'storage' });
      await expect(ThreadStore.open(join(folder, 'file', 'x'))).rejects.toMatchObject({ kind: 'storage' });
    },
  );

  it('is private to its user', async () => {
    const nested = join(folder, 'a', 'b');
    await (await ThreadStore.open(nested)).create('t');
    expect(statSync(nested).mode & 0o777).toBe(0o700);
    expect(statSync(join(nested, readdirSync(nested)[0]!)).mode & 0o777).toBe(0o600);
  });

  it('cannot be created twice', async () => {
    const log = await store.create('t', { roots: [root] });
    await log.append({ turn: 1 });
    await expect(store.create('t')).rejects.toMatchObject({
      kind: 'conflict',
      message: "thread 't' exists; resume it, or choose another id",
    });
    expect(await store.resume('t')).toMatchObject({ roots: [root], turns: [{ turn: 1 }] });
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('is created once by concurrent creators', async () => {
    const attempts = Array.from({ length: 8 }, (_, number) => store.create('t', { metadata: { number } }));
    const outcomes = await Promise.allSettled(attempts);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('that does not exist is not found', async () => {
    await expect(store.resume('t')).rejects.toMatchObject({ kind: 'notFound' });
    await expect(store.fork('t', 'u')).rejects.toMatchObject({ kind: 'notFound' });
    expect(await store.remove('t')).toBe(false);
  });

  it('can be removed', async () => {
    const log = await store.create('t');
    expect(await store.remove('t')).toBe(true);
    expect(readdirSync(folder)).toEqual([]);
    await expect(log.append({ turn: 1 })).rejects.toMatchObject({ kind: 'notFound' });
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('a thread id', () => {
  const ids = [
    '',
    '.',
    '../x',
    '/etc/passwd',
    'a\0b',
    'é',
    'e\u0301',
    '\ud800',
    '\udc00',
    '💡',
    'x'.repeat(10_240),
    'A',
    'a',
  ];

  it('is any string, and different strings are different threads', async () => {
    for (const [number, id] of ids.entries()) await store.create(id, { metadata: { number } });
    expect(readdirSync(folder)).toHaveLength(ids.length);
    for (const name of readdirSync(folder)) expect(name).toMatch(/^[0-9a-f]{64}\.jsonl$/);
    for (const [number, id] of ids.entries()) {
      expect(await store.resume(id)).toMatchObject({ id, metadata: { number } });
    }
  });

  it('is a string', async () => {
    await expect(store.create(7 as never)).rejects.toMatchObject({ kind: 'invalidInput' });
  });

  it('is shortened and escaped in messages', async () => {
    const error = await store.resume(`\n${'x'.repeat(10_240)}`).catch((reason: Error) => reason);
    expect((error as Error).message).toMatch(/^thread '\\u000ax{79}…' cannot be read: it does not exist$/);
  });

  it('must be that of the file', async () => {
    await store.create('t');
    const path = onlyFile();
    writeFileSync(path, '{"thread_id":"other"}\n');
    await expect(store.resume('t')).rejects.toMatchObject({
      kind: 'invalidData',
      message: expect.stringContaining('names another thread'),
    });
  });
});

describe('a fork', () => {
  it.each([
    [{}, [{ turn: 1 }, { turn: 2 }]],
    [{ lastTurns: 1 }, [{ turn: 2 }]],
    [{ lastTurns: 0 }, []],
  ])('with %j inherits the selection', async (options, turns) => {
    const parent = await store.create('parent', { roots: [root], metadata: { cwd: '/' } });
    await parent.append({ turn: 1 });
    await parent.append({ turn: 2 });
    const fork = await store.fork('parent', 'child', { ...options, metadata: { agent: 'reviewer' } });
    expect(fork).toMatchObject({ id: 'child', roots: [root], turns });
    expect(fork.metadata).toMatchObject({ agent: 'reviewer' });
    await fork.append({ turn: 'own' });
    expect((await store.resume('child')).turns).toEqual([...turns, { turn: 'own' }]);
    expect((await store.resume('parent')).turns).toHaveLength(2);
    const grandchild = await store.fork('child', 'grandchild', { lastTurns: 0 });
    expect(grandchild.roots).toEqual([root]);
  });

  it('can have a selection of its own', async () => {
    await store.create('parent', { roots: [root] });
    expect((await store.fork('parent', 'child', { roots: [] })).roots).toEqual([]);
  });

  it('cannot replace a thread', async () => {
    await store.create('parent', { roots: [root] });
    await expect(store.fork('parent', 'parent', { roots: [] })).rejects.toMatchObject({ kind: 'conflict' });
    expect((await store.resume('parent')).roots).toEqual([root]);
  });
});

describe('an interrupted write', () => {
  it('is reported, and all other records are kept', async () => {
    const log = await store.create('t', { roots: [root] });
    await log.append({ turn: 1 });
    await log.append({ turn: 2 });
    const path = onlyFile();
    truncateSync(path, statSync(path).size - 3);
    const resumed = await store.resume('t');
    const damage = [{ line: 3, reason: 'not complete JSON' }];
    expect(resumed).toMatchObject({ roots: [root], turns: [{ turn: 1 }], damage });
    await resumed.append({ turn: 3 });
    await resumed.append({ turn: 4 });
    expect(await store.resume('t')).toMatchObject({
      turns: [{ turn: 1 }, { turn: 3 }, { turn: 4 }],
      damage,
    });
    expect((await store.fork('t', 'u')).turns).toEqual([{ turn: 1 }, { turn: 3 }, { turn: 4 }]);
  });

  it('that lacks only its line end is complete', async () => {
    const log = await store.create('t', { roots: [root] });
    await log.append({ turn: 1 });
    const path = onlyFile();
    truncateSync(path, statSync(path).size - 1);
    const resumed = await store.resume('t');
    expect(resumed).toMatchObject({ turns: [{ turn: 1 }], damage: [] });
    await resumed.append({ turn: 2 });
    expect(await store.resume('t')).toMatchObject({ turns: [{ turn: 1 }, { turn: 2 }], damage: [] });
  });

  it('at every byte keeps the first record', async () => {
    const log = await store.create('t', { roots: [root] });
    const path = onlyFile();
    const first = statSync(path).size;
    await log.append({ text: 'é "quoted" \n' });
    const whole = readFileSync(path);
    for (let size = first; size < whole.length - 1; size++) {
      writeFileSync(path, whole.subarray(0, size));
      expect(await store.resume('t')).toMatchObject({ roots: [root], turns: [] });
    }
  });

  it.each([
    ['is empty', ''],
    ['its first record is not complete JSON', '{"thread_id":"t"'],
    ['its first record is not an object', '[]\n'],
    [
      "the thread's selected capability roots cannot be read",
      '{"thread_id":"t","selected_capability_roots":7}\n',
    ],
  ])('of the first record by another program is an error: %s', async (message, content) => {
    await store.create('t');
    writeFileSync(onlyFile(), content);
    await expect(store.resume('t')).rejects.toMatchObject({
      kind: 'invalidData',
      message: expect.stringMatching(`thread 't' cannot be read: .*${message}`),
    });
  });

  it('of a new thread leaves nothing behind', async () => {
    const [old, fresh] = ['1.unfinished', '2.unfinished'].map((name) => join(folder, name));
    writeFileSync(old!, '{"thread');
    writeFileSync(fresh!, '{"thread');
    utimesSync(old!, new Date(0), new Date(0));
    await ThreadStore.open(folder);
    // Another process may be writing the fresh one.
    expect(readdirSync(folder)).toEqual(['2.unfinished']);
  });
});

describe('two writers of one thread', () => {
  it('are noticed: the second append fails and writes nothing', async () => {
    const one = await store.create('t');
    const other = await store.resume('t');
    await one.append({ by: 'one' });
    const conflict = { kind: 'conflict', message: expect.stringContaining('nothing was written') };
    await expect(other.append({ by: 'other' })).rejects.toMatchObject(conflict);
    await expect(other.append({ by: 'other' })).rejects.toMatchObject(conflict);
    await one.append({ by: 'one' });
    expect((await store.resume('t')).turns).toEqual([{ by: 'one' }, { by: 'one' }]);
    const again = await store.resume('t');
    await again.append({ by: 'other' });
  });

  it('are noticed when they append at the same moment, and no turn is lost', async () => {
    for (let round = 0; round < 20; round++) {
      const id = `t${round}`;
      const one = await store.create(id);
      const other = await store.resume(id);
      const outcomes = await Promise.allSettled([one.append({ by: 'one' }), other.append({ by: 'other' })]);
      const { turns, damage } = await store.resume(id);
      const succeeded = outcomes.filter(({ status }) => status === 'fulfilled').length;
      expect(succeeded).toBeLessThan(2);
      expect(turns.length).toBeGreaterThanOrEqual(succeeded);
      expect(damage).toEqual([]);
    }
  });

  it('are noticed when one removes the thread and creates it with the same size', async () => {
    const one = await store.create('t');
    await one.append({ turn: 1 });
    // The file must stay in use, or its inode may be used again.
    linkSync(onlyFile(), join(folder, 'kept'));
    await store.remove('t');
    await (await store.create('t')).append({ turn: 2 });
    await expect(one.append({ turn: 3 })).rejects.toMatchObject({ kind: 'conflict' });
    expect((await store.resume('t')).turns).toEqual([{ turn: 2 }]);
  });

  it('of one program must wait for each other', async () => {
    const log = await store.create('t');
    const first = log.append({ turn: 1 });
    await expect(log.append({ turn: 2 })).rejects.toMatchObject({ kind: 'overloaded', retryable: true });
    await first;
    await log.append({ turn: 3 });
    expect((await store.resume('t')).turns).toEqual([{ turn: 1 }, { turn: 3 }]);
  });
});

describe('limits and invalid records', () => {
  it.each<[string, unknown]>([
    ['a text', 'x'],
    ['null', null],
    ['a list', []],
    ['a date', new Date()],
    ['a number that JSON lacks', { value: 1n }],
  ])('refuse %s as a turn', async (_, turn) => {
    const log = await store.create('t');
    await expect(log.append(turn as never)).rejects.toMatchObject({ kind: 'invalidInput' });
    await log.append({ turn: 1 });
    expect((await store.resume('t')).turns).toEqual([{ turn: 1 }]);
  });

  it('refuse a record that is too large', async () => {
    const log = await store.create('t');
    const overhead = Buffer.byteLength('{"text":""}\n');
    const text = 'x'.repeat(MAX_THREAD_RECORD_BYTES - overhead);
    await expect(log.append({ text: `${text}x` })).rejects.toMatchObject({ kind: 'invalidInput' });
    await log.append({ text });
    expect((await store.resume('t')).turns[0]).toHaveProperty('text.length', text.length);
    await expect(store.create('u', { metadata: { text } })).rejects.toMatchObject({ kind: 'invalidInput' });
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('refuse a thread that is too large', async () => {
    await store.create('t');
    const path = onlyFile();
    // Sparse: the second line consists of null bytes.
    truncateSync(path, MAX_THREAD_BYTES + 1);
    await expect(store.resume('t')).rejects.toMatchObject({ kind: 'invalidData' });
  });

  it('refuse a turn that does not fit into the thread', async () => {
    await store.create('t');
    const path = onlyFile();
    const line = `${JSON.stringify({ text: 'x'.repeat(MAX_THREAD_RECORD_BYTES - 12) })}\n`;
    expect(line).toHaveLength(MAX_THREAD_RECORD_BYTES);
    for (let count = 0; count < MAX_THREAD_BYTES / line.length - 1; count++) appendFileSync(path, line);
    const log = await store.resume('t');
    const free = MAX_THREAD_BYTES - statSync(path).size;
    const full = { kind: 'invalidInput', message: expect.stringContaining("thread 't' is full") };
    await expect(log.append({ text: 'x'.repeat(free - 11) })).rejects.toMatchObject(full);
    await log.append({ text: 'x'.repeat(free - 12) });
    expect(statSync(path).size).toBe(MAX_THREAD_BYTES);
    await expect(log.append({})).rejects.toMatchObject(full);
    const fork = store.fork('t', 'u', { metadata: { more: 'bytes' } });
    await expect(fork).rejects.toMatchObject({ kind: 'invalidInput' });
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('refuse too many roots and reserved members', async () => {
    const roots = Array.from({ length: MAX_SELECTED_ROOTS + 1 }, (_, number) => rootIn('e', `r${number}`));
    await expect(store.create('t', { roots })).rejects.toMatchObject({ kind: 'invalidInput' });
    for (const key of ['thread_id', 'selected_capability_roots']) {
      await expect(store.create('t', { metadata: { [key]: [] } })).rejects.toMatchObject({
        kind: 'invalidInput',
        message: expect.stringContaining(`'${key}'`),
      });
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it('refuse a file that is a link, and a folder that cannot be created', async () => {
    await store.create('t');
    const path = onlyFile();
    rmSync(path);
    symlinkSync('/etc/passwd', path);
    await expect(store.resume('t')).rejects.toMatchObject({ kind: 'storage' });
    await expect(ThreadStore.open('/etc/passwd/x')).rejects.toMatchObject({ kind: 'storage' });
  });
});
