import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ensureReference } from '../../scripts/reference.mjs';
import { signRequest } from '../../src/relay/direct/sigv4.ts';
import { DirectClient, type ReceivedRequest } from '../support/direct-client.ts';
import { temporaryFolder } from './temporary-folder.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const [reference, skipped] = await ensureReference().then(
  (path: string) => [path, null] as const,
  (error: Error) => ['', error.message] as const,
);

/** Both programs, started by the same line. */
const PROGRAMS = [
  { name: 'exec-server', command: process.execPath, args: [BIN] },
  { name: 'codex exec-server', command: reference, args: ['exec-server'] },
] as const;

const KEYS = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPx',
  sessionToken: 'a-token',
};

interface Running {
  readonly child: ChildProcess;
  /** Exit code and stderr. */
  readonly ended: Promise<[number | null, string]>;
}

/** Starts a program for the client, with keys in a profile. */
function start(program: (typeof PROGRAMS)[number], client: DirectClient, ...more: string[]): Running {
  const home = temporaryFolder('direct-');
  mkdirSync(join(home, '.aws'));
  const { accessKeyId, secretAccessKey, sessionToken } = KEYS;
  const profile = `[ci]\naws_access_key_id=${accessKeyId}\naws_secret_access_key=${secretAccessKey}\naws_session_token=${sessionToken}\n`;
  writeFileSync(join(home, '.aws', 'credentials'), profile);
  const remote = ['--remote', `http://${client.host}/base/`, '--environment-id', 'env-1'];
  const direct = ['--remote-transport', 'direct', '--aws-sigv4', '--aws-region', 'us-west-2'];
  const args = [...program.args, ...remote, ...direct, '--aws-profile', 'ci', ...more];
  const child = spawn(program.command, args, {
    env: { PATH: process.env.PATH, HOME: home, CODEX_HOME: home },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr!.setEncoding('utf8').on('data', (text) => (stderr += text));
  const ended = once(child, 'close').then(([code]): [number | null, string] => [code, stderr]);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
    rmSync(home, { recursive: true });
  });
  return { child, ended };
}

/** Throws unless the request has the signature that the keys produce for it. */
function checkSignature(
  { method, target, headers, body }: ReceivedRequest,
  host: string,
  service: string,
): void {
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(
    headers['x-amz-date'] as string,
  )!;
  const contentType = headers['content-type'];
  const signed = signRequest(
    {
      method: method as 'GET' | 'POST',
      url: new URL(`http://${host}${target}`),
      headers: contentType === undefined ? {} : { 'content-type': contentType },
      body,
    },
    KEYS,
    { region: 'us-west-2', service },
    new Date(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`),
  );
  expect(headers).toMatchObject(signed);
}

describe.skipIf(skipped !== null).each(PROGRAMS)('$name with the direct transport', (program) => {
  test('registers, serves the client that accepts its websocket, and reconnects', async () => {
    const client = await DirectClient.open();
    const { child, ended } = start(program, client, '--aws-service', ' my-service ');
    const first = await client.connection();
    expect(client.log()).toEqual(['POST /base/cloud/environment/env-1/direct/register', 'GET /direct/ws']);
    expect(client.requests[0]!.body).toBe('{"transport":"direct_jsonrpc_v1"}');
    for (const request of client.requests) checkSignature(request, client.host, 'my-service');
    const { 'sec-websocket-key': _key, ...upgrade } = client.requests[1]!.headers;
    expect(Object.keys(upgrade).sort()).toEqual([
      'authorization',
      'connection',
      'host',
      'sec-websocket-version',
      'upgrade',
      'x-amz-date',
      'x-amz-security-token',
    ]);

    const sessionId = await first.handshake({ clientName: 'test' });
    const program1 = { argv: ['cat'], cwd: 'file:///', env: {}, tty: false, pipeStdin: true };
    await first.request('process/start', { processId: 'p', ...program1 });
    await first.close();
    const second = await client.connection();
    expect(client.log().slice(2)).toEqual(['GET /direct/ws']);
    await second.handshake({ clientName: 'test', resumeSessionId: sessionId });
    const write = { processId: 'p', chunk: Buffer.from('hello\n').toString('base64'), writeId: '1' };
    expect(await second.request('process/write', write)).toMatchObject({ status: 'accepted' });
    const output = await second.waitFor(({ method }) => method === 'process/output');
    expect(output.params).toMatchObject({ processId: 'p', chunk: write.chunk });
    child.kill('SIGTERM');
    expect((await ended)[0]).toBe(0);
  });

  test('registers again after 409, and ends with 1 when the client refuses', async () => {
    const client = await DirectClient.open();
    client.refusals.push(409, 503, 403);
    const { ended } = start(program, client);
    const [code, stderr] = await ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining('403')]);
    expect(client.log().map((line) => line.split(' ')[0])).toEqual(['POST', 'GET', 'POST', 'GET', 'GET']);
  });

  test.each([503, 401])('ends with 1 when the registration gets %i', async (status) => {
    const client = await DirectClient.open();
    client.registrations.push({ status, body: {} });
    expect((await start(program, client).ended)[0]).toBe(1);
    expect(client.requests).toHaveLength(1);
  });

  test.each([
    { url: 'ws://192.0.2.1/' },
    { url: 'http://127.0.0.1/' },
    { transport: 'x' },
    { registration_id: '' },
  ])('ends with 1 at a registration with %j', async (changes) => {
    const client = await DirectClient.open();
    client.registrations.push({ status: 200, body: client.registration(changes) });
    expect((await start(program, client).ended)[0]).toBe(1);
    expect(client.requests).toHaveLength(1);
  });
});
