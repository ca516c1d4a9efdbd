import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { run } from '../../src/client/process/run.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { connectWhenThere, ENVIRONMENT, type RunningProgram, startBin, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';
import { secureWebServer } from '../support/web-servers.ts';
import { FakeRegistry } from '../unit/relay/fake-registry.ts';
import {
  chatGptJson,
  codexFolder,
  FakeAuthService,
  fileLock,
  jwt,
  type Reply,
} from '../unit/relay/sign-in/auth-fixture.ts';

const certificates = new Certificates();
afterAll(() => certificates.remove());

const expired = jwt({ exp: 1 });
const fresh = jwt({ exp: 4_000_000_000 });

function start(
  registryUrl: string,
  env: Record<string, string>,
  flags: readonly string[] = [],
): RunningProgram {
  const program = startBin(['--remote', registryUrl, '--environment-id', ENVIRONMENT, ...flags], {
    CODEX_HOME: codexFolder(),
    ...env,
  });
  onTestFinished(() => program.stop());
  return program;
}

test('programs inherit no credential', async () => {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  const names = [
    'CODEX_API_KEY',
    'CODEX_ACCESS_TOKEN',
    'OPENAI_FEDERATION_RULE_ID',
    'OPENAI_IDENTITY_TOKEN_FILE',
    'OPENAI_WORKLOAD_IDENTITY_CONTEXT',
  ];
  const others = Object.fromEntries(names.map((name) => [name, 'secret-1']));
  start(relay.executorUrl, { ...others, EXEC_SERVER_API_KEY: relay.token('executor'), MARK: 'inherited' });
  const client = await connectWhenThere(relay);
  onTestFinished(() => client.close());
  const { text } = await run(client.backend, ['/usr/bin/env']);
  expect(text.stdout).toContain('MARK=inherited');
  expect(text.stdout).not.toContain('secret-1');
  expect(text.stdout).not.toContain('API_KEY');
});

test('serves with the login of codex, and renews it when the registry refuses it', async () => {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  const service = await FakeAuthService.open();
  service.answer = () => ({ body: { access_token: relay.token('executor') } });
  const home = codexFolder({ 'auth.json': chatGptJson({}, { last_refresh: new Date().toISOString() }) });
  start(relay.executorUrl, { CODEX_HOME: home, CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url });
  const client = await connectWhenThere(relay);
  onTestFinished(() => client.close());
  expect(await client.call('environment/status', null)).toEqual({ status: 'ready' });
  expect(service.asked).toHaveLength(1);
});

test('waits for a renewal before it exits, so that the new refresh token is not lost', async () => {
  const [registry, service] = await Promise.all([FakeRegistry.open(), FakeAuthService.open()]);
  let answer: (reply: Reply) => void = () => {};
  service.answer = () => new Promise((resolve) => (answer = resolve));
  const home = codexFolder({ 'auth.json': chatGptJson({ access_token: expired }) });
  const env = { CODEX_HOME: home, CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url };
  const program = start(registry.url, env, ['--listen', 'ws://127.0.0.1:0']);
  await waitFor('the renewal', () => service.asked.length === 1 && program.stdout() !== '');
  program.process.kill('SIGTERM');
  const listener = program.stdout().trim().replace('ws', 'http');
  await waitFor('the end of the listener', () =>
    fetch(`${listener}/readyz`).then(
      () => false,
      () => true,
    ),
  );
  answer({ body: { access_token: fresh, refresh_token: 'refresh-2' } });
  expect(await program.exited).toBe(0);
  expect(JSON.parse(readFileSync(join(home, 'auth.json'), 'utf8'))).toMatchObject({
    tokens: { refresh_token: 'refresh-2' },
  });
});

test.skipIf(fileLock === null)('several processes share a login, and renew it once', async () => {
  const [registry, service] = await Promise.all([FakeRegistry.open(), FakeAuthService.open()]);
  registry.answer = () => ({ status: 403, body: '' });
  let issued = 1;
  service.answer = ({ text }) => {
    // The service accepts each refresh token once.
    if (JSON.parse(text).refresh_token !== `refresh-${issued}`) return { status: 401 };
    issued++;
    return { body: { access_token: fresh, refresh_token: `refresh-${issued}` } };
  };
  const home = codexFolder({ 'auth.json': chatGptJson({ access_token: expired }) });
  const env = { CODEX_HOME: home, CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url };
  const programs = Array.from({ length: 3 }, () => start(registry.url, env));
  await Promise.all(programs.map(({ exited }) => exited));
  expect(service.asked).toHaveLength(1);
  expect(registry.asked.map(({ headers }) => headers.authorization)).toEqual(
    Array(3).fill(`Bearer ${fresh}`),
  );
});

test('a signal ends the program while it signs in', async () => {
  const [registry, service] = await Promise.all([FakeRegistry.open(), FakeAuthService.open()]);
  service.answer = () => new Promise(() => {});
  const program = start(registry.url, { CODEX_ACCESS_TOKEN: 'at-1', CODEX_AUTHAPI_BASE_URL: service.url });
  await waitFor('the request', () => service.asked.length === 1);
  program.process.kill('SIGTERM');
  expect([await program.exited, program.stderr(), registry.asked]).toEqual([0, '', []]);
});

test.each(['CODEX_CA_CERTIFICATE', 'SSL_CERT_FILE'])('trusts the authority of %s', async (name) => {
  const authority = certificates.authority(`authority of ${name}`);
  const asked: string[] = [];
  const registry = await secureWebServer(pem(certificates.signedBy(authority, name)), ({ url }, response) => {
    asked.push(url!);
    response.writeHead(403).end();
  });
  onTestFinished(() => registry.close());
  const untrusted = start(registry.url, { CODEX_API_KEY: 'key-1' });
  expect([await untrusted.exited, untrusted.stderr()]).toEqual([
    1,
    expect.stringContaining('is not trusted'),
  ]);
  expect(asked).toEqual([]);
  const trusted = start(registry.url, { CODEX_API_KEY: 'key-1', [name]: authority.cert });
  expect([await trusted.exited, trusted.stderr()]).toEqual([1, expect.stringContaining('HTTP 403')]);
  expect(asked).toEqual([`/cloud/environment/${ENVIRONMENT}/register`]);
});

test('reports an authority file that cannot be read', async () => {
  const program = start('https://127.0.0.1:1', { CODEX_API_KEY: 'k', CODEX_CA_CERTIFICATE: '/nowhere' });
  expect([await program.exited, program.stderr()]).toEqual([
    1,
    expect.stringMatching(
      /^exec-server: Failed to read CA certificate file \/nowhere selected by CODEX_CA_CERTIFICATE/,
    ),
  ]);
});

test('prints no secret when a registry or an auth service repeats it', async () => {
  const [registry, service] = await Promise.all([FakeRegistry.open(), FakeAuthService.open()]);
  const secret = 'at-very-secret-token';
  registry.answer = () => ({ status: 403, body: { error: { message: `no ${secret} refresh-secret` } } });
  service.answer = () => ({ status: 400, body: { error: { code: secret, message: 'refresh-secret' } } });
  const login = chatGptJson({ access_token: expired, refresh_token: 'refresh-secret' });
  const home = codexFolder({ 'auth.json': login });
  const variables = { CODEX_AUTHAPI_BASE_URL: service.url, CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url };
  for (const env of [{ CODEX_API_KEY: secret }, { CODEX_ACCESS_TOKEN: secret }]) {
    const program = start(registry.url, { ...variables, ...env }, ['--log-level', 'debug']);
    expect(await program.exited).toBe(1);
    expect(program.stderr()).not.toContain(secret);
  }
  registry.answer = () => ({ status: 403, body: '' });
  const program = start(registry.url, { ...variables, CODEX_HOME: home }, ['--log-level', 'debug']);
  expect(await program.exited).toBe(1);
  expect(program.stderr()).toContain('cannot renew the login');
  expect(program.stderr()).not.toMatch(/secret|eyJ/);
});

test('forward signs in the same way', async () => {
  const registry = await FakeRegistry.open();
  registry.answer = () => ({ status: 403, body: '' });
  const home = codexFolder({ 'auth.json': chatGptJson({}, { last_refresh: new Date().toISOString() }) });
  const place = ['--remote', registry.url, '--environment-id', ENVIRONMENT];
  const forwarder = startBin(['forward', '--connect', 'ws://127.0.0.1:1', ...place], { CODEX_HOME: home });
  onTestFinished(() => forwarder.stop());
  expect(await forwarder.exited).toBe(1);
  expect(registry.asked[0]!.headers).toMatchObject({
    authorization: 'Bearer access-1',
    'chatgpt-account-id': 'account-1',
  });
});

test('the settings do not show a credential', async () => {
  const config = join(codexFolder(), 'config.toml');
  writeFileSync(config, '');
  const env = { EXEC_SERVER_API_KEY: 'secret-1', CODEX_API_KEY: 'secret-1', CODEX_ACCESS_TOKEN: 'secret-1' };
  const program = startBin(['config', '--config', config], env);
  expect([await program.exited, program.stdout().includes('secret-1')]).toEqual([0, false]);
});
