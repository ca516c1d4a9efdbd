import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { DirectClient } from '../support/direct-client.ts';
import { Workspace } from '../unit/cli/run-cli.ts';

const DIRECT = [
  '--remote-transport',
  'direct',
  '--aws-sigv4',
  '--aws-region',
  'eu-west-1',
  '--aws-service',
  'execute-api',
];
const KEYS = { AWS_ACCESS_KEY_ID: 'AK', AWS_SECRET_ACCESS_KEY: 'very-secret', AWS_SESSION_TOKEN: 'session' };

function start(client: DirectClient, ...flags: string[]) {
  const workspace = new Workspace();
  onTestFinished(() => workspace.close());
  const args = ['--remote', `http://${client.host}`, '--environment-id', 'env-1', ...DIRECT, ...flags];
  return workspace.start(args, { ...KEYS, CODEX_API_KEY: 'sk-key' });
}

test('programs of a client over the direct transport do not inherit the keys', async () => {
  const client = await DirectClient.open();
  const executor = start(client);
  const connection = await client.connection();
  await connection.handshake();
  const envPolicy = {
    inherit: 'all' as const,
    ignoreDefaultExcludes: true,
    exclude: [],
    set: {},
    includeOnly: [],
  };
  const program = { argv: ['/usr/bin/env'], cwd: 'file:///', env: {}, envPolicy, tty: false };
  await connection.call('process/start', { processId: 'p', ...program });
  await connection.closedProcess('p');
  const printed = connection.process('p').text('stdout');
  expect(printed).toContain('PATH=');
  expect(printed).not.toMatch(/AWS_|very-secret|session|sk-key/);
  expect(client.requests[0]!.headers.authorization).toContain('Credential=AK/');
  executor.child.kill('SIGTERM');
  expect(await once(executor.child, 'exit')).toEqual([0, null]);
});

test('asks the credential_process again for each connection, also after programs have run', async () => {
  const client = await DirectClient.open();
  const workspace = new Workspace();
  onTestFinished(() => workspace.close());
  const keys = '{"Version":1,"AccessKeyId":"K%s","SecretAccessKey":"s"}';
  const command = `echo >> runs; printf '${keys}' $(wc -l < runs)`;
  const config = workspace.file('config', `[profile ci]\ncredential_process = ${command}\n`);
  const args = ['--remote', `http://${client.host}`, '--environment-id', 'env-1', ...DIRECT];
  workspace.start([...args, '--aws-profile', 'ci'], { ...KEYS, AWS_CONFIG_FILE: config });
  const connection = await client.connection();
  await connection.handshake();
  const program = { argv: ['true'], cwd: 'file:///', env: {}, tty: false };
  await connection.call('process/start', { processId: 'p', ...program });
  await connection.closedProcess('p');
  await connection.close();
  await (await client.connection()).handshake();
  const used = client.requests.map(({ headers }) => /Credential=(\w+)/.exec(headers.authorization!)?.[1]);
  expect(used).toEqual(['K1', 'K2', 'K3']);
});

test('reports its connection on stderr, and ends with the end of stdin', async () => {
  const client = await DirectClient.open();
  const executor = start(client, '--exit-on-stdin-close');
  await (await client.connection()).handshake();
  executor.child.stdin.end();
  expect(await executor.outcome).toMatchObject({
    code: 0,
    stdout: '',
    stderr: `exec-server: connected to ${client.host} as environment env-1\n`,
  });
});

test('serves the direct transport and a listener', async () => {
  const client = await DirectClient.open();
  const executor = start(client, '--listen', 'ws://127.0.0.1:0');
  const [line] = await once(executor.child.stdout, 'data');
  expect(String(line)).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\n$/);
  const connection = await client.connection();
  await connection.handshake();
  expect(await connection.call('environment/status', {})).toEqual({ status: 'ready' });
});

test('a refusal ends the server with a message that names it', async () => {
  const client = await DirectClient.open();
  client.registrations.push({ status: 403, body: { error: { code: 'forbidden', message: 'not you' } } });
  const { code, stderr } = await start(client).outcome;
  expect([code, stderr]).toEqual([
    1,
    `exec-server: the registry ${client.host} answered direct/register with HTTP 403 (forbidden: not you)\n`,
  ]);
});
