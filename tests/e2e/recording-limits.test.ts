import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { startServer, startServerProcess, type TestClient } from '../../src/testing/index.ts';
import { base64, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'recording-limits-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Adds a recording of an earlier day that has ended. */
function plant(directory: string, day: number, bytes: number, ageHours: number): string {
  const id = `2026010${day}T000000000Z-planted${day}`;
  const subject = { ref: `planted${day}`, owner: 'local', tty: true };
  const header = { version: 3, term: { cols: 80, rows: 24 }, timestamp: 1, exec_server: subject };
  const output = JSON.stringify([0, 'o', 'x'.repeat(bytes)]);
  const path = join(directory, `${id}.cast`);
  writeFileSync(path, `${JSON.stringify(header)}\n${output}\n[0, "x", "0"]\n`);
  const time = Date.now() / 1000 - ageHours * 3600;
  utimesSync(path, time, time);
  return `${id}.cast`;
}

test('the options of the server limit the age of recordings, the size of one and the size of all', async () => {
  const directory = join(folder, 'options');
  mkdirSync(directory, { mode: 0o700 });
  const [oldest, kept, expired] = [
    plant(directory, 1, 150_000, 0.5),
    plant(directory, 2, 150_000, 0.5),
    // Recorded later than the others, and not written since.
    plant(directory, 3, 1_000, 2),
  ];
  const server = await startServerProcess([
    ...['--record-dir', directory, '--recording-retention', '1h'],
    ...['--max-recording-bytes', '100000', '--max-recordings-bytes', '290000'],
  ]);
  onTestFinished(() => server.close());
  const client = await server.connect();
  await client.call('process/start', shell('p', 'seq 1 60000'));
  const recorded = await waitFor('the end of the recording', async () => {
    const { recordings } = await client.call('recordings/list', {});
    return recordings.find(({ command, state }) => command.includes('seq') && state !== 'recording');
  });
  expect(recorded!.state).toBe('incomplete');
  expect(recorded!.bytes).toBeLessThanOrEqual(100_000);
  await waitFor('the oldest to be removed', () => !readdirSync(directory).includes(oldest));
  expect(readdirSync(directory)).not.toContain(expired);
  expect(readdirSync(directory)).toEqual([kept, `${recorded!.recordingId}.cast`]);
});

test('has markers for a client that connects again and for a limit that ends the program', async () => {
  const directory = join(folder, 'markers');
  const server = await startServer({ recordDir: directory });
  onTestFinished(() => server.close());
  const markers = () => {
    // The file appears after the start of the program was answered.
    const [name] = readdirSync(directory);
    if (name === undefined) return [];
    const lines = readFileSync(join(directory, name), 'utf8').trimEnd().split('\n').slice(1);
    return lines.map((line) => JSON.parse(line).slice(1)).filter(([code]) => code !== 'o');
  };
  const connect = async (resumeSessionId?: string): Promise<[TestClient, string]> => {
    const client = await server.connect({ handshake: false });
    const session = { clientName: 'ann', detachedSessionTtlMs: 60_000 };
    return [client, await client.handshake({ ...session, ...(resumeSessionId && { resumeSessionId }) })];
  };
  const [first, session] = await connect();
  const limits = { outputBytes: 10_000 };
  await first.call('process/start', { ...shell('p', 'read line; exec yes'), pipeStdin: true, limits });
  await first.close();
  await waitFor('the marker', () => markers().length === 1);
  const [second] = await connect(session);
  await second.call('process/write', { processId: 'p', chunk: base64('\n') });
  await second.closedProcess('p');
  await waitFor('the end of the recording', () => markers().at(-1)?.[0] === 'x');
  expect(markers().slice(0, -1)).toEqual([
    ['m', 'disconnected: ann'],
    ['m', 'connected: ann'],
    ['m', 'ended by a limit: outputLimit'],
  ]);
});
