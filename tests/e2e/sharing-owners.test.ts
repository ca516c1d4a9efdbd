import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connect as connectClient } from '../../src/client/index.ts';
import { METHODS, type Method } from '../../src/protocol/registry.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import { startServer, TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, shell } from '../support/programs.ts';

const SECRET = 'a secret of more than thirty-two bytes';
const folder = mkdtempSync(join(tmpdir(), 'sharing-owners-'));
let server: TestServer;
beforeAll(async () => {
  const wsSharedSecretFile = join(folder, 'secret');
  writeFileSync(wsSharedSecretFile, SECRET);
  server = await startServer({ wsAuth: 'signed-bearer-token', wsSharedSecretFile });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A token of this subject, limited to scopes if they are given. */
function tokenOf(sub: string, scopes: readonly string[]): string {
  const exp = Math.floor(Date.now() / 1_000) + 600;
  return signToken({ exp, sub, ...(scopes.length > 0 && { exec_server: { scopes } }) }, SECRET);
}

/** A client of the library with such a token. */
async function library(sub: string, ...scopes: string[]) {
  const client = await connectClient({ url: server.url, authToken: tokenOf(sub, scopes) });
  onTestFinished(() => client.close());
  return client;
}

/** A client with a token of this subject, limited to scopes if they are given. */
async function connect(
  sub: string,
  ...scopes: string[]
): Promise<TestClient & { readonly sessionId: string }> {
  const client = await TestClient.connect(server.url, { authorization: `Bearer ${tokenOf(sub, scopes)}` });
  onTestFinished(() => client.close());
  const sessionId = await client.handshake({ clientName: sub, capabilities: { processSharing: true } });
  return Object.assign(client, { sessionId });
}

/** What a request leads to, without the id that it names. */
async function outcome(client: TestClient, method: string, params: object, id: string): Promise<string> {
  const answer = await client.request(method, params).catch(({ code, message }) => ({ code, message }));
  return JSON.stringify(answer).replaceAll(id, 'ID');
}

/** Every method that takes the id of a process, and params for it. */
const PARAMS: Partial<Record<Method, object>> = {
  'process/start': { ...shell('', 'true') },
  'process/read': { afterSeq: 0 },
  'process/write': { chunk: base64('x') },
  'process/signal': { signal: 'SIGTERM' },
  'process/terminate': {},
  'process/closeStdin': {},
  'process/resize': { rows: 1, cols: 1 },
  'process/wait': { timeoutMs: 0 },
  'process/snapshot': {},
  'process/detach': {},
  'process/consumed': { seq: 1 },
  'process/screen': {},
  'process/forget': {},
  'process/setLifetime': { lifetime: { type: 'detached' } },
  'command/exec': { argv: ['true'], cwd: '/', env: {}, tty: false },
  'command/exec/write': { chunk: base64('x') },
  'command/exec/terminate': {},
};
const STARTS: readonly string[] = ['process/start', 'command/exec'];

describe('the process of another owner', () => {
  test('is unknown to every method', async () => {
    const methods = Object.entries(METHODS).filter(([, { subject }]) => subject === 'processId');
    expect(Object.keys(PARAMS).sort()).toEqual(methods.map(([name]) => name).sort());

    const [ana, bo] = [await connect('ana'), await connect('bo')];
    const { ref } = await ana.call('process/start', {
      ...shell('own-process', 'echo secret; cat'),
      pipeStdin: true,
      name: 'job',
    });
    await ana.waitFor(({ method }) => method === 'process/output');
    for (const [method, params] of Object.entries(PARAMS)) {
      if (STARTS.includes(method)) continue;
      const seen = await outcome(bo, method, { ...params, processId: ref }, ref!);
      expect([method, seen]).toEqual([
        method,
        await outcome(bo, method, { ...params, processId: 'zzzzzzzz' }, 'zzzzzzzz'),
      ]);
    }
    for (const role of ['viewer', 'driver']) {
      for (const [named, absent] of [
        [{ ref }, { ref: 'zzzzzzzz' }],
        [{ name: 'job' }, { name: 'no-job' }],
        [
          { processId: 'own-process', sessionId: ana.sessionId },
          { processId: 'no-process', sessionId: ana.sessionId },
        ],
      ] as const) {
        const [id, other] = [Object.values(named)[0]!, Object.values(absent)[0]!];
        const attach = { role, takeOver: role === 'driver' };
        expect(await outcome(bo, 'process/attach', { ...named, ...attach }, id)).toBe(
          await outcome(bo, 'process/attach', { ...absent, ...attach }, other),
        );
      }
    }
    await expect(bo.call('process/list', { scope: 'server' })).rejects.toMatchObject({ code: -32003 });
    for (const scope of ['session', 'owner'] as const) {
      expect(await bo.call('process/list', { scope })).toEqual({ processes: [] });
    }
    // The name is free for another owner, and the id of the session is no secret any more.
    await bo.call('process/start', { ...shell('p', 'true'), name: 'job' });
    await ana.drop();
    await expect(
      (async () => {
        const thief = await TestClient.connect(server.url, {
          authorization: `Bearer ${signToken({ exp: Math.floor(Date.now() / 1_000) + 600, sub: 'bo' }, SECRET)}`,
        });
        onTestFinished(() => thief.close());
        await thief.handshake({ clientName: 'thief', resumeSessionId: ana.sessionId });
      })(),
    ).rejects.toThrow(`unknown session id ${ana.sessionId}`);
    expect(JSON.stringify(bo.received)).not.toContain(base64('secret\n'));
  });

  test('is shared by the connections of one subject', async () => {
    const [one, other] = [await connect('cy'), await connect('cy')];
    const { ref } = await one.call('process/start', shell('p', 'sleep 60'));
    expect(await other.call('process/list', { scope: 'owner' })).toMatchObject({
      processes: [{ ref, owner: 'cy', attached: [{ client: 'cy', role: 'driver' }] }],
    });
    expect(await other.call('process/terminate', { processId: ref! })).toEqual({ running: true });
  });
});

describe('a token with the scope `observe`', () => {
  test('views the processes of all owners', async () => {
    const [ana, observer] = [await connect('ana'), await connect('watcher', 'observe')];
    const { ref } = await ana.call('process/start', { ...shell('p', 'echo out; cat'), pipeStdin: true });
    const { processes } = await observer.call('process/list', { scope: 'server' });
    expect(processes.find((process) => process.ref === ref)).toMatchObject({ owner: 'ana', processId: ref });
    await expect(
      observer.call('process/attach', { ref: ref!, role: 'driver', takeOver: true }),
    ).rejects.toMatchObject({ code: -32003 });
    await observer.call('process/attach', { ref: ref!, afterSeq: 0 });
    await ana.call('process/closeStdin', { processId: 'p' });
    expect((await observer.closedProcess(ref!)).text()).toBe('out\n');
    expect(await observer.call('process/read', { processId: ref! })).toMatchObject({ exitCode: 0 });
    expect(await observer.call('process/wait', { processId: ref! })).toMatchObject({ closed: true });
  });
});

describe('the library finds the process of another owner', () => {
  test('by its reference, with the scope observe, and may not end it', async () => {
    const [owner, observer] = [await library('ann'), await library('bob', 'observe')];
    const { ref } = await owner.spawn(['sleep', '600'], { name: 'of-ann' });
    expect(await observer.processes.get(ref!)).toMatchObject({ ref, owner: 'ann', state: 'running' });
    await expect(observer.processes.get('of-ann')).rejects.toMatchObject({ kind: 'notFound' });
    for (const end of [
      () => observer.processes.terminate(ref!),
      () => observer.processes.signal(ref!, 'SIGTERM'),
    ]) {
      await expect(end()).rejects.toMatchObject({
        kind: 'permissionDenied',
        message: expect.stringContaining('it needs the scope `exec`'),
      });
    }
    const both = await library('bob', 'observe', 'exec');
    const message = expect.stringContaining('belongs to another owner');
    await expect(both.processes.terminate(ref!)).rejects.toMatchObject({ kind: 'permissionDenied', message });
    expect((await owner.processes.get(ref!)).state).toBe('running');
  });

  test('not at all without it', async () => {
    const [owner, other] = [await library('ann'), await library('bob', 'exec')];
    const { ref } = await owner.spawn(['sleep', '600']);
    await expect(other.processes.get(ref!)).rejects.toMatchObject({ kind: 'notFound' });
    await expect(other.processes.terminate(ref!)).rejects.toMatchObject({ kind: 'notFound' });
  });
});
