import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startServer } from '../../src/testing/index.ts';
import { Certificates } from '../support/certificates.ts';
import { connectMcp, GENERATIONS } from '../support/mcp-client.ts';
import { processOf } from '../support/mcp-server.ts';
import { CommandUser } from '../support/private-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
afterAll(() => user.close());

const INITIALIZE = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
};

/** Starts the program and sends messages, one per line. */
function start(args: readonly string[], ...messages: readonly object[]) {
  const run = user.start(['mcp', ...args]);
  let stdout = '';
  run.child.stdout.on('data', (text: string) => {
    stdout += text;
  });
  for (const message of messages) {
    run.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
  /** Waits for the answer to a request. */
  const answer = async (id: number) => {
    const find = () => stdout.split('\n').find((line) => new RegExp(`"id":${id}[,}]`).test(line));
    await waitFor(`the answer ${id}`, () => find() !== undefined);
    return JSON.parse(find()!) as {
      readonly result: { readonly content: readonly { readonly text: string }[] };
    };
  };
  return { ...run, answer };
}

const call = (id: number, name: string, args: object) => ({
  id,
  method: 'tools/call',
  params: { name, arguments: args },
});

describe('exec-server mcp on stdio', () => {
  test('prints nothing but the protocol, ends with stdin, and leaves programs running', async () => {
    const cmd = 'echo out; echo err >&2; sleep 1000';
    const started = call(2, 'exec_command', { cmd, login: false, yield_time_ms: 250 });
    const { child, answer, outcome } = start(['--sandbox', 'off'], INITIALIZE, started);
    const { result } = await answer(2);
    const process = processOf(result.content[0]!.text);
    child.stdin.write('this is not JSON\n');
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...call(3, 'nothing', {}) })}\n`);
    await answer(3);
    child.stdin.end();
    const { code, stdout, stderr } = await outcome;
    expect(code).toBe(0);
    for (const line of stdout.trim().split('\n')) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' });
    expect(stderr).toBe('');
    expect((await user.run(['ps', '--json'])).stdout).toContain(process);
    expect((await user.run(['kill', process])).code).toBe(0);
  });

  test('ends on SIGTERM during a call', async () => {
    const started = call(2, 'exec_command', { cmd: 'sleep 1000', login: false, yield_time_ms: 30_000 });
    const { child, answer, outcome } = start(['--sandbox', 'off'], INITIALIZE, started);
    await answer(1);
    child.kill('SIGTERM');
    expect(await outcome).toMatchObject({ code: 0, signal: null, stderr: '' });
  });

  test('refuses a message that is too long, and goes on', async () => {
    const content = 'x'.repeat(17 * 1024 * 1024);
    const long = call(2, 'write_file', { path: 'a', content });
    const { child, answer, outcome } = start([], INITIALIZE, long, call(3, 'nothing', {}));
    expect(await answer(2)).toMatchObject({ error: { message: expect.stringContaining('16777216 bytes') } });
    await answer(3);
    child.stdin.end();
    expect(await outcome).toMatchObject({ code: 0, stderr: expect.stringContaining('16777216 bytes') });
  });

  test('gives programs the variables of its client, not those of the command that started the private server', async () => {
    const cmd = 'echo "<$FOO-$OF_FIRST-$EXEC_SERVER_X>"';
    const outputs: string[] = [];
    for (const env of [
      { FOO: 'first', OF_FIRST: '1' },
      { FOO: 'second', EXEC_SERVER_X: '1' },
    ]) {
      const client = await connectMcp('2025-11-25', {
        args: ['mcp', '--sandbox', 'off'],
        cwd: user.workspace.path,
        env: { HOME: user.workspace.path, ...user.env, ...env },
      });
      outputs.push((await client.call('exec_command', { cmd, login: false })).text);
      await client.close();
    }
    expect(outputs).toEqual([expect.stringContaining('<first-1->'), expect.stringContaining('<second-->')]);
  });
});

test('several environments give the tools an argument, and have roots of their own', async () => {
  const server = await startServer();
  const far = server.url;
  const roots = ['--root', '.', '--root', `${far}:/usr`];
  const args = ['mcp', '-E', 'local', '-E', far, '-E', 'ws://127.0.0.1:9', ...roots, '--sandbox', 'off'];
  const place = { args, cwd: user.workspace.path, env: { HOME: user.workspace.path, ...user.env } };
  const client = await connectMcp('2025-11-25', place);
  try {
    const [tool] = await client.tools();
    expect(tool!.inputSchema).toMatchObject({
      properties: { environment: { enum: ['local', far, 'ws://127.0.0.1:9'] } },
    });
    const run = (environment: string) =>
      client.call('exec_command', { cmd: 'pwd', login: false, environment });
    expect((await run('local')).text).toContain(user.workspace.path);
    expect((await run(far)).text).toMatch(/\n\/usr\n/);
    expect(await run('mars')).toMatchObject({ isError: true, text: expect.stringContaining('local') });
    const refused = await run('ws://127.0.0.1:9');
    expect(refused).toMatchObject({ isError: true, text: expect.stringMatching(/cannot be reached/) });
  } finally {
    await client.close();
    await server.close();
  }
});

describe('exec-server mcp --http', () => {
  let url: string;
  let run: ReturnType<CommandUser['start']>;

  beforeAll(async () => {
    run = user.start(['mcp', '--http', '127.0.0.1:0', '--sandbox', 'off']);
    url = await firstLine(run);
  });

  test.each(GENERATIONS)('serves clients of %s', async (generation) => {
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    const client = await connectMcp(generation, { url });
    expect((await client.call('exec_command', { cmd: 'pwd', login: false })).text).toContain(
      user.workspace.path,
    );
    await client.close();
  });

  test('ends on SIGTERM', async () => {
    run.child.kill('SIGTERM');
    expect(await run.outcome).toMatchObject({ code: 0, stderr: '' });
  });
});

test('exec-server mcp --http over TLS serves clients with a token only', async () => {
  const certificates = new Certificates();
  onTestFinished(() => certificates.remove());
  const authority = certificates.authority('authority');
  const { cert, key } = certificates.signedBy(authority, 'server');
  const own = certificates.signedBy(authority, 'client');
  const secret = user.workspace.file('mcp-secret', 'a secret of more than thirty-two bytes');
  const revoked = user.workspace.file('revoked', '');
  const run = user.start([
    ...['mcp', '--http', '127.0.0.1:0', '--read-only', '--ask', '--allowed-host', 'box.example'],
    ...['--tls-cert', cert, '--tls-key', key, '--tls-client-ca', authority.cert],
    ...['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret, '--revoked-tokens', revoked],
    ...['--ws-issuer', 'us', '--ws-audience', 'them'],
  ]);
  const url = await firstLine(run);
  const claims = ['--issuer', 'us', '--audience', 'them'];
  const token = await user.run(['token', 'signed', '--secret-file', secret, ...claims]);
  const status = (host: string, ...headers: string[]) =>
    spawnSync(
      'curl',
      [
        ...['-s', '-o', '/dev/null', '-w', '%{http_code}', '--cacert', authority.cert],
        ...['--cert', own.cert, '--key', own.key, '-H', `Host: ${host}`],
        ...['-H', 'Accept: application/json, text/event-stream', '-H', 'Content-Type: application/json'],
        ...['-d', JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }), ...headers, url],
      ],
      { encoding: 'utf8' },
    ).stdout;
  const bearer = `Authorization: Bearer ${token.stdout.trim()}`;
  expect(status('box.example')).toBe('401');
  expect(status('other.example', '-H', bearer)).toBe('421');
  expect(status('box.example', '-H', bearer)).toMatch(/^(?:200|400|404)$/);
  run.child.kill('SIGTERM');
  expect(await run.outcome).toMatchObject({ code: 0 });
});

test.each([
  [['--ws-auth', 'capability-token', '--ws-token-file', 'capability'], '401'],
  [['--ws-auth', 'capability-token', '--ws-token-sha256', '0'.repeat(64)], '401'],
  [['--insecure-no-auth'], '415'],
])('exec-server mcp --http %j answers a client without a token with %s', async (flags, status) => {
  user.workspace.file('capability', 'x'.repeat(43));
  const run = user.start(['mcp', '--http', '127.0.0.1:0', ...flags]);
  const { status: got } = await fetch(await firstLine(run), { method: 'POST', body: '{}' });
  expect(String(got)).toBe(status);
  run.child.kill('SIGTERM');
  expect(await run.outcome).toMatchObject({ code: 0 });
});
