import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Sessions } from '../../src/mcp/http/sessions.ts';
import {
  MAX_BATCH,
  MAX_MESSAGE_BYTES,
  MAX_PIPELINED_REQUESTS,
  MAX_RESULT_BYTES_IN_ALL,
  MAX_SESSIONS,
  MAX_SESSIONS_PER_OWNER,
  SESSION_IDLE_MS,
} from '../../src/mcp/limits.ts';
import { ResultBudget, withinBudget } from '../../src/mcp/result-budget.ts';
import { openGate } from '../../src/server/auth/open-gate.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import { configOf } from '../../src/server/config/resolve.ts';
import { connectMcp, GENERATIONS } from '../support/mcp-client.ts';
import { McpFixture, processOf } from '../support/mcp-server.ts';

const SECRET = 'a shared secret of more than thirty-two bytes';
let folder: string;
let fixture: McpFixture;
let open: string;
let guarded: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mcp-http-'));
  writeFileSync(join(folder, 'secret'), SECRET);
  fixture = await McpFixture.open();
  open = await fixture.listen();
  guarded = await fixture.listen({ gate: await signedGate() });
});

afterAll(async () => {
  await fixture?.close();
  rmSync(folder, { recursive: true, force: true });
});

function signedGate() {
  const wsSharedSecretFile = join(folder, 'secret');
  return openGate(configOf({ wsAuth: 'signed-bearer-token', wsSharedSecretFile }), null);
}

function token(claims: Readonly<Record<string, unknown>> = {}): string {
  return signToken({ exp: Math.floor(Date.now() / 1000) + 600, ...claims }, SECRET);
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
};

const JSON_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** Sends a request with exactly these headers. */
function send(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: unknown = INITIALIZE,
  method = 'POST',
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { ...JSON_HEADERS, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: text }),
      );
    });
    sent.on('error', reject);
    sent.end(method === 'POST' ? (typeof body === 'string' ? body : JSON.stringify(body)) : undefined);
  });
}

describe('a request is refused', () => {
  test.each<[string, Record<string, string>, number]>([
    ['for another host', { host: 'evil.example' }, 421],
    ['from a web page', { origin: 'https://evil.example' }, 403],
    ['from a page of another port of this machine', { origin: 'http://127.0.0.1:1' }, 403],
    ['from a sandboxed page', { origin: 'null' }, 403],
    ['with another type of content', { 'content-type': 'text/plain' }, 415],
    ['for an unknown session', { 'mcp-session-id': 'none' }, 404],
  ])('%s', async (_, headers, status) => {
    expect((await send(open, headers)).status).toBe(status);
  });

  test('that is not JSON, or too large', async () => {
    expect((await send(open, {}, '{')).status).toBe(400);
    const large = { 'content-length': String(MAX_MESSAGE_BYTES + 1) };
    const refused = send(open, large, ' '.repeat(MAX_MESSAGE_BYTES + 1)).catch(() => ({ status: 413 }));
    expect((await refused).status).toBe(413);
  });

  test('that has too many messages', async () => {
    const batch = Array.from({ length: MAX_BATCH + 1 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }));
    expect((await send(open, {}, batch)).status).toBe(400);
    expect((await send(open, {}, batch)).body).toContain(`more than ${MAX_BATCH} messages`);
  });

  test('for another path', async () => {
    expect((await send(new URL('/', open).href, {})).status).toBe(404);
  });

  test('before its body is read', async () => {
    const body = 'x'.repeat(1_000_000);
    expect((await send(open, { host: 'evil.example' }, body)).status).toBe(421);
    expect((await send(guarded, {}, body)).status).toBe(401);
  });
});

describe('a token', () => {
  test.each(GENERATIONS)('lets a client of %s in', async (generation) => {
    const client = await connectMcp(generation, { url: guarded, token: token({ sub: 'me' }) });
    expect((await client.tools()).length).toBeGreaterThan(0);
    await client.close();
  });

  test.each<[string, string | null, number]>([
    ['is required', null, 401],
    ['of another secret is refused', signToken({ exp: 9e9 }, `${SECRET}!`), 401],
    ['that has expired is refused', signToken({ exp: 1 }, SECRET), 401],
    [
      'that is limited to reading is refused',
      signToken({ exp: 9e9, exec_server: { scopes: ['read-only', 'observe'] } }, SECRET),
      403,
    ],
  ])('%s', async (_, given, status) => {
    const headers = given === null ? {} : { authorization: `Bearer ${given}` };
    const reply = await send(guarded, headers as Record<string, string>);
    expect(reply.status).toBe(status);
    if (status === 401) expect(reply.headers['www-authenticate']).toBe('Bearer');
    if (given === null) expect(reply.body).toContain('"Authorization: Bearer TOKEN"');
    expect(reply.body).not.toContain('websocket');
  });

  test('that is limited to reading is enough for tools that read', async () => {
    const reading = await fixture.listen({ gate: await signedGate(), readOnly: true });
    const status = async (...scopes: string[]) =>
      (await send(reading, { authorization: `Bearer ${token({ exec_server: { scopes } })}` })).status;
    expect(await status('read-only', 'observe')).toBe(200);
    expect(await status('read-only')).toBe(403);
    expect(await status('observe')).toBe(403);
  });

  test('does not open the session of another owner', async () => {
    const opened = await send(guarded, { authorization: `Bearer ${token({ sub: 'a' })}` });
    expect(opened.status).toBe(200);
    const session = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
    const reply = (sub: string) =>
      send(guarded, { authorization: `Bearer ${token({ sub })}`, ...session }, list);
    expect((await reply('b')).status).toBe(404);
    expect((await reply('a')).status).toBe(200);
  });
});

describe('sessions', () => {
  const now = { ms: 0 };
  const answer = async (
    sessions: Sessions,
    headers: Record<string, string> = {},
    body: unknown = INITIALIZE,
    owner = 'local',
  ) => {
    const web = new Request(open, { method: 'POST', headers: { ...JSON_HEADERS, ...headers } });
    const response = await sessions.answer(web, body, owner, Promise.resolve());
    await response.text();
    return response;
  };

  test('beyond the limit replace the one that was not used for the longest time', async () => {
    const sessions = new Sessions(fixture.servers, () => now.ms++);
    const first = (await answer(sessions)).headers.get('mcp-session-id')!;
    const second = (await answer(sessions)).headers.get('mcp-session-id')!;
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' };
    await answer(sessions, { 'mcp-session-id': first }, ping);
    for (let count = sessions.size; count <= MAX_SESSIONS_PER_OWNER; count++) await answer(sessions);
    expect(sessions.size).toBe(MAX_SESSIONS_PER_OWNER);
    await expect(answer(sessions, { 'mcp-session-id': second }, ping)).rejects.toThrow('unknown session');
    expect((await answer(sessions, { 'mcp-session-id': first }, ping)).status).toBe(200);
    await sessions.close();
    expect(sessions.size).toBe(0);
  });

  test('of one owner do not end those of others', async () => {
    const sessions = new Sessions(fixture.servers, () => now.ms++);
    const mine = (await answer(sessions, {}, INITIALIZE, 'me')).headers.get('mcp-session-id')!;
    for (let count = 0; count < MAX_SESSIONS; count++) await answer(sessions);
    expect(sessions.size).toBe(MAX_SESSIONS_PER_OWNER + 1);
    for (let count = sessions.size; count <= MAX_SESSIONS; count++) {
      await answer(sessions, {}, INITIALIZE, `other ${count}`);
    }
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' };
    expect((await answer(sessions, { 'mcp-session-id': mine }, ping, 'me')).status).toBe(200);
    await sessions.close();
  });

  test('end when they are idle', async () => {
    const sessions = new Sessions(fixture.servers, () => now.ms);
    await answer(sessions);
    now.ms += SESSION_IDLE_MS - 1;
    sessions.endIdle();
    expect(sessions.size).toBe(1);
    now.ms++;
    sessions.endIdle();
    expect(sessions.size).toBe(0);
    await sessions.close();
  });

  test('end when their client says so', async () => {
    const opened = await send(open, {});
    const session = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
    expect((await send(open, session, null, 'DELETE')).status).toBe(200);
    expect((await send(open, session, { jsonrpc: '2.0', id: 2, method: 'ping' })).status).toBe(404);
  });
});

test('a call is refused while clients have too many results that they have not read', async () => {
  const never = new Promise<void>(() => {});
  await new ResultBudget().run('a client', never, async () => {
    const client = await connectMcp('2025-11-25', { servers: fixture.servers, log: fixture.options.log });
    expect((await client.call('list_processes', {})).isError).toBe(false);
    const large = async () => 'x'.repeat(MAX_RESULT_BYTES_IN_ALL);
    await withinBudget('tool', new AbortController().signal, large);
    const refused = await client.call('list_processes', {});
    expect(refused.isError).toBe(true);
    expect(refused.text).toContain('too many results');
    await client.close();
  });
});

test('a connection with too many requests under way is closed', async () => {
  const opened = await send(open, {});
  const { hostname, port, host } = new URL(open);
  const headers = { host, ...JSON_HEADERS, 'mcp-session-id': opened.headers['mcp-session-id'] };
  const message = (method: string, body = '') => {
    const lines = Object.entries({ ...headers, 'content-length': body.length });
    return `${method} /mcp HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
  };
  const ping = message('POST', JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'ping' }));
  // A stream without end is first, so that all others wait for it.
  const socket = connect(Number(port), hostname, () =>
    socket.write(message('GET') + ping.repeat(MAX_PIPELINED_REQUESTS - 1)),
  );
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.on('close', resolve));
  await new Promise((resolve) => socket.once('data', resolve));
  expect((await send(open, {})).status).toBe(200);
  expect(socket.closed).toBe(false);
  socket.write(ping);
  await closed;
});

test('clients without a session do not move the position of each other', async () => {
  const [first, second] = await Promise.all([0, 1].map(() => connectMcp('2026-07-28', { url: open })));
  const { text } = await first!.call('exec_command', { cmd: 'echo hello', login: false });
  const process = processOf(text);
  for (const client of [first!, second!, second!]) {
    expect((await client.call('read_output', { process })).text).toContain('hello');
  }
  await Promise.all([first!.close(), second!.close()]);
});

test('a listener that closes ends the streams of its clients', async () => {
  const url = await fixture.listen();
  const client = await connectMcp('2025-11-25', { url });
  await client.tools();
  await fixture.closeListener(url);
  await expect(client.tools()).rejects.toThrow();
  await client.close();
});
