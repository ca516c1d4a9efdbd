import { spawnSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { ensureReference, startReference } from '../../scripts/reference.mjs';
import { startServerProcess } from '../../src/testing/index.ts';

const skipped = await ensureReference().then(
  () => null,
  (error: Error) => error.message,
);

const UPGRADE = {
  connection: 'upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
};

/** Status and body of the response to a websocket upgrade. */
function ask(url: string, headers: Readonly<Record<string, string>>, path = '/'): Promise<[number, string]> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, headers: { ...UPGRADE, ...headers } });
    sent.on('upgrade', (_, socket) => {
      socket.destroy();
      resolve([101, '']);
    });
    sent.on('response', (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => resolve([response.statusCode ?? 0, body]));
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** The responses of both servers, started with the same flags. They run in parallel, because failure delays would add up. */
async function compare(flags: readonly string[], requests: readonly Readonly<Record<string, string>>[]) {
  const args = ['--listen', 'ws://127.0.0.1:0', ...flags];
  const reference = await startReference({ args });
  onTestFinished(() => reference.stop());
  const ours = await startServerProcess(args);
  onTestFinished(() => ours.close());
  const answers = (url: string) => Promise.all(requests.map((headers) => ask(url, headers)));
  const [theirs, mine] = await Promise.all([answers(reference.url!), answers(ours.url)]);
  expect(mine.map((answer, index) => [requests[index], answer])).toEqual(
    theirs.map((answer, index) => [requests[index], answer]),
  );
  return mine.map(([status]) => status);
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'ws-auth-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

/** The error of a server that does not start, without the program's name. */
function refusal(command: string, args: readonly string[], home: string): [number | null, string] {
  const { status, stderr } = spawnSync(command, [...args, '--listen', 'ws://127.0.0.1:0'], {
    encoding: 'utf8',
    env: { ...process.env, HOME: home, CODEX_HOME: '' },
    timeout: 20_000,
  });
  const line = stderr.split('\n').find((text) => /^(?:Error|exec-server): /.test(text)) ?? '';
  return [status, line.replace(/^\S+ /, '')];
}

test.skipIf(skipped !== null)('rejects bad settings with the texts of the reference', async () => {
  const reference = await ensureReference();
  const place = folder();
  const file = (name: string, content: string) => {
    writeFileSync(join(place, name), content);
    return join(place, name);
  };
  const [capability, signed] = ['capability-token', 'signed-bearer-token'].map((mode) => ['--ws-auth', mode]);
  const digest = ['--ws-token-sha256', 'a'.repeat(64)];
  const token = ['--ws-token-file', file('token', 'x')];
  const secret = (content: string) => ['--ws-shared-secret-file', file(`secret-${content.length}`, content)];
  for (const flags of [
    capability!,
    [...capability!, ...token, ...digest],
    [...capability!, '--ws-token-sha256', 'xyz'],
    [...capability!, '--ws-token-file', join(place, 'missing')],
    [...capability!, '--ws-token-file', file('blank', ' \n')],
    [...capability!, ...digest, '--ws-issuer', 'me'],
    [...capability!, ...digest, ...secret('y'.repeat(32))],
    token,
    ['--ws-audience', 'you'],
    signed!,
    [...signed!, ...secret('z'.repeat(31))],
    [...signed!, ...secret('w'.repeat(33)), ...digest],
    [...signed!, ...secret('')],
  ]) {
    const theirs = refusal(reference, ['exec-server', ...flags], place);
    expect([flags, refusal(process.execPath, [BIN, ...flags], place)]).toEqual([flags, theirs]);
    expect(theirs[0]).toBe(1);
  }
});

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

test.skipIf(skipped !== null)('answers capability tokens as the reference does', async () => {
  const digest = createHash('sha256').update('sesame').digest('hex');
  const statuses = await compare(
    ['--ws-auth', 'capability-token', '--ws-token-sha256', digest],
    [
      bearer('sesame'),
      { authorization: 'bEaReR   sesame  ' },
      {},
      { authorization: 'Basic sesame' },
      { authorization: 'sesame' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      bearer('wrong'),
      bearer('sesame x'),
      { ...bearer('sesame'), origin: 'http://page' },
      { ...bearer('wrong'), 'sec-websocket-version': '12' },
    ],
  );
  expect(statuses.slice(0, 3)).toEqual([101, 101, 401]);
});

test.skipIf(skipped !== null)('answers signed tokens as the reference does', async () => {
  const secret = 'shared'.repeat(6);
  const secretFile = join(folder(), 'secret');
  writeFileSync(secretFile, ` ${secret}\n`);
  const now = Math.floor(Date.now() / 1_000);
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const sign = (claims: unknown, header: unknown = { alg: 'HS256' }, digest = 'sha256', key = secret) => {
    const content = `${part(header)}.${part(claims)}`;
    return bearer(`${content}.${createHmac(digest, key).update(content).digest('base64url')}`);
  };
  const good = { exp: now + 600, iss: 'me', aud: 'you' };
  const statuses = await compare(
    [
      ...['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secretFile],
      ...['--ws-issuer', 'me', '--ws-audience', ' you ', '--ws-max-clock-skew-seconds', '60'],
    ],
    [
      sign(good),
      sign({ ...good, aud: ['x', 'you'] }),
      sign({ ...good, exp: now - 30 }),
      sign({ ...good, nbf: now + 30 }),
      sign({ ...good, jti: 5, iat: 'x', scope: 'openid' }),
      sign({ ...good, nbf: null }),
      sign({ ...good, exp: now - 120 }),
      sign({ ...good, nbf: now + 120 }),
      sign({ ...good, iss: 'x' }),
      sign({ ...good, iss: undefined, aud: undefined }),
      sign({ ...good, aud: undefined }),
      sign({ ...good, aud: [] }),
      sign({ ...good, aud: 5 }),
      sign({ ...good, iss: 5 }),
      sign({ ...good, nbf: 'x' }),
      sign({ ...good, exp: String(now + 600) }),
      sign({ ...good, exp: now + 600.5 }),
      sign({ ...good, exp: undefined }),
      sign(good, { alg: 'HS512' }, 'sha512'),
      sign(good, { alg: 'none' }),
      sign(good, { alg: 'HS256' }, 'sha256', 'another'.repeat(6)),
      sign(good, {}),
      bearer('garbage'),
      bearer('a.b.c'),
    ],
  );
  expect(statuses.slice(0, 7)).toEqual([101, 101, 101, 101, 101, 101, 401]);
});
