import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  ProcessEvents,
  startServer,
  TcpProxy,
  TestClient,
  type TestServer,
} from '../../src/testing/index.ts';
import { isAlive } from '../support/machine.ts';
import { base64, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

describe('a lost connection', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.close());

  /** Connects and resumes. Retries while the server has not noticed the loss yet, as clients do. */
  async function resume(url: string, sessionId: string): Promise<TestClient> {
    for (let attempt = 0; attempt < 200; attempt++) {
      const client = await TestClient.connect(url);
      try {
        expect(await client.handshake({ clientName: 'again', resumeSessionId: sessionId })).toBe(sessionId);
        return client;
      } catch (error) {
        expect((error as { code?: number }).code).toBe(-32010);
        await client.drop();
      }
    }
    throw new Error('the session stayed attached');
  }

  test('loses and repeats nothing, 500 times during output', async () => {
    const proxy = await TcpProxy.open(server.url);
    let client = await TestClient.connect(proxy.url);
    const sessionId = await client.handshake();
    const script = 'i=0; while read line; do i=$((i+1)); echo "$i:$line"; echo "e$i" >&2; done; echo done';
    await client.call('process/start', { ...shell('p', script), pipeStdin: true });
    const merged = new ProcessEvents('p');
    let repeatedByServer = 0;

    for (let round = 0; round < 500; round++) {
      client.sendText(
        JSON.stringify({
          id: 1_000_000,
          method: 'process/write',
          params: { processId: 'p', chunk: base64(`round ${round}\n`), writeId: `w${round}` },
        }),
      );
      // The answer may be lost with the connection: the write is repeated below with the same id.
      if (round % 3 === 0) await client.waitFor((message) => message.id === 1_000_000);
      proxy.drop();
      await client.closed;
      for (const event of client.process('p').events) merged.insert(event);
      repeatedByServer += client.process('p').repeated;
      client = await resume(proxy.url, sessionId);
      const retry = { processId: 'p', chunk: base64(`round ${round}\n`), writeId: `w${round}` };
      expect(await client.call('process/write', retry)).toEqual({ status: 'accepted' });
      const page = await client.call('process/read', { processId: 'p', afterSeq: merged.contiguousSeq });
      merged.addChunks(page.chunks);
      expect(page.chunks[0]?.seq ?? merged.contiguousSeq + 1).toBeLessThanOrEqual(merged.contiguousSeq + 1);
    }

    await client.call('process/closeStdin', { processId: 'p' });
    await client.waitFor((message) => message.method === 'process/closed');
    const rest = await client.call('process/read', { processId: 'p', afterSeq: merged.contiguousSeq });
    merged.addChunks(rest.chunks);
    for (const event of client.process('p').events) merged.insert(event);
    expect(repeatedByServer).toBe(0);
    expect(merged.complete).toBe(true);
    const expected = Array.from({ length: 500 }, (_, i) => `${i + 1}:round ${i}\n`).join('');
    expect(merged.text('stdout')).toBe(`${expected}done\n`);
    expect(merged.text('stderr')).toBe(Array.from({ length: 500 }, (_, i) => `e${i + 1}\n`).join(''));
    await client.close();
    await proxy.close();
  });

  test('leaves the program running, and its output can be read later', async () => {
    const first = await server.connect();
    const sessionId = await first.handshake().catch(() => null);
    expect(sessionId).toBeNull();
    const client = await server.connect({ handshake: false });
    const id = await client.handshake();
    await client.call('process/start', {
      ...shell('p', 'echo one; read x; echo two; exit 5'),
      pipeStdin: true,
    });
    await client.waitFor((message) => message.method === 'process/output');
    client.sendText(
      JSON.stringify({
        id: 9,
        method: 'process/write',
        params: { processId: 'p', chunk: base64('go\n'), writeId: '1' },
      }),
    );
    await client.waitFor((message) => message.id === 9);
    await client.drop();
    const again = await resume(server.url, id);
    const end = await again.call('process/wait', { processId: 'p' });
    expect(end).toEqual({ running: false, exited: true, exitCode: 5, closed: true });
    const page = await again.call('process/read', { processId: 'p' });
    expect(Buffer.concat(page.chunks.map((chunk) => Buffer.from(chunk.chunk, 'base64'))).toString()).toBe(
      'one\ntwo\n',
    );
    expect(page).toMatchObject({ nextSeq: 5, exited: true, exitCode: 5, closed: true });
    await again.close();
    await first.close();
  });

  test('longer than the retention shows a gap in the sequence numbers', async () => {
    const client = await server.connect({ handshake: false });
    const id = await client.handshake();
    const folder = mkdtempSync(join(tmpdir(), 'resume-'));
    const script = `while [ ! -e ${folder}/go ]; do sleep 0.01; done; head -c 5000000 /dev/zero; echo end`;
    await client.call('process/start', shell('big', script));
    await client.drop();
    writeFileSync(join(folder, 'go'), '');
    const again = await resume(server.url, id);
    await again.call('process/wait', { processId: 'big' });
    const seen = client.process('big').contiguousSeq;
    const page = await again.call('process/read', { processId: 'big', afterSeq: seen });
    const total = page.chunks.reduce((sum, chunk) => sum + Buffer.from(chunk.chunk, 'base64').length, 0);
    expect(total).toBeLessThanOrEqual(1024 * 1024);
    expect(total).toBeGreaterThan(1024 * 1024 - 65_536);
    expect(page.chunks[0]!.seq).toBeGreaterThan(seen + 1);
    expect(page.closed).toBe(true);
    const snapshot = await again.call('process/snapshot', { processId: 'big' });
    expect(snapshot.truncated).toBe(true);
    const kept = Buffer.from(snapshot.stdout, 'base64').length;
    expect(kept + snapshot.omittedBytes.stdout).toBe(5_000_004);
    rmSync(folder, { recursive: true });
    await again.close();
  });

  test('cancels a long poll and does not delay the resume', async () => {
    const client = await server.connect({ handshake: false });
    const id = await client.handshake();
    await client.call('process/start', shell('quiet', 'sleep 600'));
    client.sendText('{"id":77,"method":"process/read","params":{"processId":"quiet","waitMs":600000}}');
    await client.call('environment/status', {});
    await client.drop();
    const again = await resume(server.url, id);
    expect(await again.call('process/terminate', { processId: 'quiet' })).toEqual({ running: true });
    expect((await again.closedProcess('quiet')).exitCode).toBe(137);
    await again.close();
  });
});

describe('a session that is not resumed', () => {
  test('ends with its processes after its time to live', async () => {
    const server = await startServer({ detachedSessionTtlMs: 50 });
    const client = await server.connect({ handshake: false });
    const sessionId = await client.handshake();
    await client.call('process/start', shell('p', 'echo $$; exec sleep 600'));
    const output = await client.waitFor((message) => message.method === 'process/output');
    const pid = Number(Buffer.from((output.params as { chunk: string }).chunk, 'base64').toString());
    await client.drop();
    await expect.poll(() => isAlive(pid)).toBe(false);
    const late = await server.connect({ handshake: false });
    await expect(late.handshake({ resumeSessionId: sessionId })).rejects.toMatchObject({ code: -32600 });
    await server.close();
  });

  test('ends immediately with a time to live of 0, which the client may request', async () => {
    const server = await startServer();
    const client = await server.connect({ handshake: false });
    const sessionId = await client.handshake({ detachedSessionTtlMs: 0 });
    await client.close();
    const late = await server.connect({ handshake: false });
    await expect(late.handshake({ resumeSessionId: sessionId })).rejects.toMatchObject({ code: -32600 });
    await server.close();
  });
});

test('a client whose connection went silent resumes its session before the server would have noticed', async () => {
  const server = await startServer();
  const proxy = await TcpProxy.open(server.url);
  const lost = await TestClient.connect(proxy.url);
  const resumeSessionId = await lost.handshake();
  // The connection is open but carries nothing; the client gives up and reconnects.
  proxy.setStalled(true);
  lost.setReading(false);
  const resumed = await waitFor('the session to be free', async () => {
    const client = await server.connect({ handshake: false });
    try {
      await client.handshake({ clientName: 'again', resumeSessionId });
      return client;
    } catch (error) {
      expect((error as { code?: number }).code).toBe(-32010);
      await client.close();
      return null;
    }
  });
  expect(await resumed?.call('process/list', {})).toEqual({ processes: [] });
  await proxy.close();
  await server.close();
});
