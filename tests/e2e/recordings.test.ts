import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { LocalEnvironment } from '../../src/environment/local-environment.ts';
import { type CastEvent, CastReader } from '../../src/recording/asciicast.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import { startServer, startServerProcess, TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, shell, terminal } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const SECRET = 'a secret of more than thirty-two bytes';
const folder = mkdtempSync(join(tmpdir(), 'recordings-'));
const [recordDir, auditLog, secretFile] = ['all', 'audit.jsonl', 'secret'].map((name) => join(folder, name));
let server: TestServer;
beforeAll(async () => {
  writeFileSync(secretFile!, SECRET);
  server = await startServer({
    recordDir: recordDir!,
    auditLog: auditLog!,
    wsAuth: 'signed-bearer-token',
    wsSharedSecretFile: secretFile!,
  });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A client with a token of this subject, limited to scopes if they are given. */
async function connect(sub: string, ...scopes: string[]): Promise<TestClient> {
  const exp = Math.floor(Date.now() / 1_000) + 600;
  const token = signToken({ exp, sub, ...(scopes.length > 0 && { exec_server: { scopes } }) }, SECRET);
  const client = await TestClient.connect(server.url, { authorization: `Bearer ${token}` });
  onTestFinished(() => client.close());
  await client.handshake({ clientName: sub, capabilities: { processSharing: true } });
  return client;
}

/** The recording of a process, when it has ended. */
async function ended(client: TestClient, ref: string | undefined) {
  const found = await waitFor('the end of the recording', async () => {
    const { recordings } = await client.call('recordings/list', {});
    return recordings.find((each) => each.ref === ref && each.state !== 'recording');
  });
  return found!;
}

/** Reads a recording in pages of this size. */
async function read(client: TestClient, recordingId: string, maxBytes = 100_000): Promise<string> {
  const pages: Buffer[] = [];
  for (let offset = 0; ; ) {
    const { chunk } = await client.call('recordings/read', { recordingId, offset, maxBytes });
    const bytes = Buffer.from(chunk, 'base64');
    if (bytes.length === 0) return Buffer.concat(pages).toString();
    pages.push(bytes);
    offset += bytes.length;
  }
}

function parse(text: string): { header: NonNullable<CastReader['header']>; events: CastEvent[] } {
  const reader = new CastReader();
  const events = text
    .trimEnd()
    .split('\n')
    .flatMap((line) => reader.line(line) ?? []);
  return { header: reader.header!, events };
}

const shown = (events: readonly CastEvent[]) =>
  events
    .filter(({ code }) => code === 'o')
    .map(({ text }) => text)
    .join('');
const codes = (events: readonly CastEvent[]) => events.map(({ code, text }) => `${code} ${text}`);

test('records a program whose client is lost, and its SHA-256 goes into the audit log', async () => {
  const client = await connect('ann');
  const script = 'echo "token=hunter2"; read line; echo "got $line" >&2; exit 3';
  const params = {
    ...shell('p', script),
    pipeStdin: true,
    name: 'job',
    lifetime: { type: 'detached' } as const,
  };
  const { ref, recordingId } = await client.call('process/start', { ...params, record: true });
  await client.call('process/read', { processId: 'p', waitMs: 10_000 });
  const { processes } = await client.call('process/list', {});
  expect(processes[0]!.recording).toMatchObject({ recordingId, state: 'recording' });
  await client.close();
  const next = await connect('ann');
  await next.call('process/write', { processId: ref!, chunk: base64('more\n') });
  const recording = await ended(next, ref);
  expect(recording).toMatchObject({ recordingId, name: 'job', owner: 'ann', state: 'complete', tty: false });
  const text = await read(next, recordingId!, 50);
  const { header, events } = parse(text);
  expect(header).toMatchObject({ version: 3, term: { cols: 80, rows: 24 }, title: 'job' });
  expect(header.command).toContain('echo "token=***');
  expect(codes(events)).toEqual(['o token=***\r\n', 'm disconnected: ann', 'o got more\r\n', 'x 3']);
  const file = join(recordDir!, `${recordingId}.cast`);
  expect(readFileSync(file, 'utf8')).toBe(text);
  expect([statSync(file).mode & 0o777, statSync(recordDir!).mode & 0o777]).toEqual([0o600, 0o700]);
  const record = await waitFor('the audit record', () =>
    readFileSync(auditLog!, 'utf8')
      .split('\n')
      .filter((line) => line.includes('"event":"recording"') && line.includes(ref!))
      .map((line) => JSON.parse(line))
      .at(0),
  );
  const sha256 = createHash('sha256').update(text).digest('hex');
  expect(record).toMatchObject({
    path: file,
    sha256,
    bytes: text.length,
    complete: true,
    processId: 'p',
  });
});

test('cuts and masks the variables in the header', async () => {
  const client = await connect('ann');
  const env = { LANG: 'x'.repeat(100_000), SHELL: '/bin/sh?token=hunter2', TERM: 'y'.repeat(1_000) };
  const { ref } = await client.call('process/start', { ...shell('v', 'true'), env, record: true });
  const { header } = parse(await read(client, (await ended(client, ref)).recordingId));
  expect(header.env).toEqual({ LANG: 'x'.repeat(128), SHELL: '/bin/sh?token=***' });
  expect(header.term.type).toBe('y'.repeat(128));
});

test('records resizes, attached clients, and input only when it was asked for', async () => {
  const [owner, other] = [await connect('ann'), await connect('ann')];
  const params = {
    ...terminal('t', 'stty -echo; echo ready; read a; echo "$a"'),
    size: { rows: 10, cols: 40 },
  };
  const { ref } = await owner.call('process/start', { ...params, record: { input: true } });
  await owner.call('process/read', { processId: 't', waitMs: 10_000 });
  await owner.call('process/resize', { processId: 't', rows: 20, cols: 60 });
  await other.call('process/attach', { ref: ref! });
  await other.call('process/attach', { ref: ref!, role: 'driver', takeOver: true });
  await other.call('process/detach', { processId: ref! });
  const write = { processId: 't', chunk: base64('typed\r'), writeId: 'w' };
  // The second one is a retry.
  for (let count = 0; count < 2; count++) await owner.call('process/write', write);
  const { recordingId } = await ended(owner, ref);
  const { header, events } = parse(await read(owner, recordingId));
  expect(header.term).toMatchObject({ cols: 40, rows: 10 });
  expect(codes(events).filter((event) => !event.startsWith('o'))).toEqual([
    'r 60x20',
    'm attached: ann (viewer)',
    'm taken over: ann from ann',
    'm detached: ann',
    'i typed\r',
    'x 0',
  ]);
  expect(shown(events)).toBe('ready\r\ntyped\r\n');
});

test('marks what a sandbox has denied', async () => {
  const client = await connect('ann');
  const sandbox = { type: 'readOnly' } as const;
  const { ref } = await client.call('process/start', { ...shell('s', 'echo x > /nope'), sandbox });
  const { recordingId } = await ended(client, ref);
  const { events } = parse(await read(client, recordingId));
  expect(codes(events).slice(-2)).toEqual(['m the sandbox denied an operation', 'x 2']);
});

test('records all programs into the configured directory, also those of old clients', async () => {
  const client = await connect('old');
  await client.call('command/exec', {
    processId: 'c',
    argv: ['/bin/sh', '-c', 'echo hi'],
    cwd: '/',
    env: {},
    tty: false,
  });
  const started = await client.call('process/start', shell('p', 'echo unasked'));
  expect(started).not.toHaveProperty('recordingId');
  const complete = async () => {
    const { recordings } = await client.call('recordings/list', {});
    return recordings.filter(({ state }) => state === 'complete');
  };
  await waitFor('both', async () => (await complete()).length === 2);
  const recordings = await complete();
  const texts = await Promise.all(recordings.map(({ recordingId }) => read(client, recordingId)));
  expect(texts.map((text) => shown(parse(text).events)).sort()).toEqual(['hi\r\n', 'unasked\r\n']);
});

describe('owners and scopes', () => {
  test('another owner cannot list or read a recording; the scope observe can', async () => {
    const cleo = await connect('cleo');
    const { ref, recordingId } = await cleo.call('process/start', { ...shell('p', 'echo x'), record: true });
    await ended(cleo, ref);
    const bo = await connect('bo');
    expect(await bo.call('recordings/list', {})).toEqual({ recordings: [] });
    await expect(bo.call('recordings/list', { scope: 'server' })).rejects.toMatchObject({ code: -32003 });
    for (const id of [recordingId!, 'nope', '../audit', '20260101T000000000Z-../../secret']) {
      await expect(bo.call('recordings/read', { recordingId: id })).rejects.toMatchObject({ code: -32004 });
    }
    const observer = await connect('eve', 'observe');
    const { recordings } = await observer.call('recordings/list', { scope: 'server' });
    expect(recordings.map((each) => each.recordingId)).toContain(recordingId);
    expect(await read(observer, recordingId!)).toContain('"x"');
    const reader = await connect('cleo', 'read-only');
    await expect(reader.call('recordings/list', {})).rejects.toMatchObject({ code: -32003 });
  });

  test('lists in pages', async () => {
    const client = await connect('pages');
    const refs: (string | undefined)[] = [];
    for (const processId of ['a', 'b', 'c']) {
      refs.push((await client.call('process/start', shell(processId, 'true'))).ref);
      await ended(client, refs.at(-1));
    }
    const { recordings } = await client.call('recordings/list', {});
    expect(recordings.map(({ ref }) => ref)).toEqual(refs);
    const after = recordings[0]!.recordingId;
    expect((await client.call('recordings/list', { after })).recordings).toEqual(recordings.slice(1));
  });
});

test('refuses `record` where recordings are switched off, and when the file cannot be created', async () => {
  const off = await startServer({ maxRecordingsBytes: 0 });
  const client = await off.connect();
  const started = client.call('process/start', { ...shell('p', 'true'), record: true });
  await expect(started).rejects.toThrow('switched off (maxRecordingsBytes)');
  await expect(client.call('recordings/list', {})).rejects.toThrow('switched off');
  await client.call('process/start', { ...shell('p', 'true'), record: false });
  await off.close();
  const state = join(folder, 'state');
  process.env.XDG_STATE_HOME = state;
  onTestFinished(() => void delete process.env.XDG_STATE_HOME);
  mkdirSync(join(state, 'exec-server', 'recordings'), { recursive: true, mode: 0o755 });
  const other = await startServer({ logLevel: 'error' });
  onTestFinished(() => other.close());
  const asking = await other.connect();
  const directory = join(state, 'exec-server', 'recordings');
  const refused = asking.call('process/start', { ...shell('p', 'true'), record: true });
  await expect(refused).rejects.toThrow(`other users can open ${directory}; run: chmod 700 ${directory}`);
  expect((await asking.call('process/list', {})).processes).toEqual([]);
  chmodSync(directory, 0o700);
  const failing = { ...shell('p', 'true'), argv: ['/no/such/program'] };
  await expect(asking.call('process/start', { ...failing, record: true })).rejects.toThrow();
  await waitFor('its recording to be removed', () => readdirSync(directory).length === 0);
  await asking.call('process/start', { ...shell('p', 'true'), record: true });
  await waitFor('the recording', () => readdirSync(directory).length === 1);
});

test('refuses to start with a directory that others can open', async () => {
  const open = join(folder, 'open');
  mkdirSync(open, { mode: 0o755 });
  await expect(startServer({ recordDir: open })).rejects.toThrow(
    `cannot keep recordings in ${open}: other users can open ${open}; run: chmod 700 ${open} (--record-dir)`,
  );
});

test('a server that ends closes the recordings of the programs that it ends', async () => {
  const directory = join(folder, 'ended');
  const ending = await startServer({ recordDir: directory, shutdownGracePeriodMs: 5_000 });
  const client = await ending.connect();
  await client.call('process/start', shell('p', 'echo started; exec sleep 600'));
  await client.call('process/read', { processId: 'p', waitMs: 10_000 });
  await ending.close();
  const [name] = readdirSync(directory);
  const { events } = parse(readFileSync(join(directory, name!), 'utf8'));
  expect(codes(events).filter((event) => !event.startsWith('m'))).toEqual(['o started\r\n', 'x 143']);
});

test('a server that is killed leaves a playable recording, which the next one lists as incomplete', async () => {
  const directory = join(folder, 'killed');
  const killed = await startServerProcess(['--record-dir', directory]);
  const client = await killed.connect();
  await client.call('process/start', shell('p', 'i=0; while :; do i=$((i+1)); echo "line $i"; done'));
  const file = await waitFor('output', () => {
    const [name] = readdirSync(directory);
    const path = join(directory, name ?? '');
    return name !== undefined && statSync(path).size > 100_000 ? path : '';
  });
  killed.process.kill('SIGKILL');
  await waitFor('its end', () => killed.process.signalCode);
  const text = readFileSync(file, 'utf8');
  const { events } = parse(text.slice(0, text.lastIndexOf('\n') + 1));
  expect(shown(events)).toMatch(/^line 1\r\nline 2\r\n/);
  const next = await startServer({ recordDir: directory });
  onTestFinished(() => next.close());
  const reader = await next.connect();
  const { recordings } = await reader.call('recordings/list', {});
  expect(recordings).toMatchObject([{ state: 'incomplete', owner: 'local' }]);
  const readable = await read(reader, recordings[0]!.recordingId);
  expect(readable.endsWith('\n')).toBe(true);
  expect(parse(readable).events.length).toBeGreaterThan(0);
});

const MOUNT = [
  '-rm',
  'sh',
  '-c',
  'mount -t tmpfs -o size=256k none "$1" && exec "$2" "$3" --record-dir "$1/r"',
  'sh',
];
const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', folder]).status === 0;
const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

test.runIf(mayMount)(
  'a full disk loses output with a marker, and neither stops nor ends the program',
  async () => {
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    const wrapper = join(folder, 'on-small-disk.cjs');
    const command = JSON.stringify([...MOUNT, disk, process.execPath, BIN]);
    writeFileSync(
      wrapper,
      `const child = require('child_process').spawn('unshare', ${command}, { stdio: 'inherit' });
     for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal));
     child.on('exit', (code) => process.exit(code ?? 1));`,
    );
    const full = await startServerProcess([], {}, wrapper);
    onTestFinished(() => full.close());
    const client = await full.connect();
    const script = `
    head -c 200000 /dev/zero > ${disk}/filler
    i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "before $i ----------------------------------------"; done
    read line
    rm ${disk}/filler
    (while :; do echo again; sleep 0.1; done) & read line
    kill $!
    echo after`;
    await client.call('process/start', { ...shell('p', script), pipeStdin: true });
    const recorded = async (pattern: RegExp) => {
      const { recordings } = await client.call('recordings/list', {});
      return recordings.length > 0 && pattern.test(await read(client, recordings[0]!.recordingId));
    };
    await waitFor('the marker', () => recorded(/ "m", "\d+ bytes of output are missing: ENOSPC/));
    await client.call('process/write', { processId: 'p', chunk: base64('\n') });
    // A recording tries again some time after a write has failed.
    await waitFor('more output', () => recorded(/ "o", "again/));
    await client.call('process/write', { processId: 'p', chunk: base64('\n') });
    expect(await client.call('process/wait', { processId: 'p' })).toMatchObject({
      exitCode: 0,
      closed: true,
    });
    const listed = async () => (await client.call('recordings/list', {})).recordings[0]!;
    await waitFor('the end', async () => (await listed()).state === 'incomplete');
    const { events } = parse(await read(client, (await listed()).recordingId));
    const [after, incomplete, exit] = codes(events).slice(-3);
    // Lines that come close together are one event.
    expect([after, exit]).toEqual([expect.stringMatching(/^o (again\r\n)*after\r\n$/), 'x 0']);
    expect(incomplete).toMatch(/^m recording incomplete: \d+ bytes of output are missing$/);
    const markers = codes(events).filter((event) => /^m \d+ bytes of output are missing: ENOSPC/.test(event));
    expect(markers.length).toBeGreaterThan(0);
    const lost = markers.reduce((sum, marker) => sum + Number(/\d+/.exec(marker)![0]), 0);
    expect(incomplete).toContain(` ${lost} bytes`);
  },
);

test('an environment lists and reads recordings', async () => {
  const environment = new LocalEnvironment(undefined, { recordDir: join(folder, 'local') });
  onTestFinished(() => environment.dispose());
  await environment.run(['echo', 'hello'], { record: true });
  const recording = await waitFor('the end of the recording', async () => {
    const recordings = await environment.recordings.list();
    return recordings.find(({ state }) => state === 'complete');
  });
  let text = '';
  for await (const bytes of environment.recordings.read(recording!.recordingId)) text += Buffer.from(bytes);
  expect(parse(text).events.filter(({ code }) => code === 'o')).toMatchObject([{ text: 'hello\r\n' }]);
});
