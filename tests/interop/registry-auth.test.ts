import { createPublicKey, verify } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { createHome, ensureReference } from '../../scripts/reference.mjs';
import { AuthFile } from '../../src/relay/sign-in/auth-file.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { startBin, startProgram } from '../support/relay.ts';
import { removeFolder } from '../support/remove-folder.ts';
import { tlsInterceptor } from '../support/tls-interceptor.ts';
import { waitFor } from '../support/wait-for.ts';
import { type FakeAnswer, FakeRegistry } from '../unit/relay/fake-registry.ts';
import {
  agentToken,
  chatGptJson,
  FakeAuthService,
  fileLock,
  jwt,
  PUBLIC_KEYS,
  recordedLog,
} from '../unit/relay/sign-in/auth-fixture.ts';

const binary: string | Error = await ensureReference().catch((error: Error) => error);
const skipped = binary instanceof Error;

const certificates = new Certificates();
afterAll(() => certificates.remove());

type Kind = 'exec-server' | 'reference';
type Variables = Readonly<Record<string, string>>;

/** What a program does to register. The registry refuses it in the end. */
interface Scenario {
  readonly files?: Readonly<Record<string, unknown>>;
  readonly env?: Variables;
  readonly args?: readonly string[];
  readonly stdin?: string;
  /** Follows the address of the registry. */
  readonly base?: string;
  readonly environmentId?: string;
  /** The answers of the registry before it refuses. */
  readonly answers?: readonly FakeAnswer[];
}

/** What a registry and the auth services received, without what differs between two runs. */
interface Observed {
  readonly exitCode: number | string;
  readonly stderr: string;
  readonly registry: readonly object[];
  readonly services: readonly object[];
  /** Null when the file does not exist or is not JSON. */
  readonly authJson: { readonly tokens?: unknown } | null;
}

const expired = jwt({ exp: 1 });
const fresh = jwt({ exp: Math.floor(Date.now() / 1_000) + 3_600 });
const workloadToken = jwt({ 'https://api.openai.com/auth': { chatgpt_user_id: 'user-1' } });
const agent = agentToken({ exp: Math.floor(Date.now() / 1_000) + 3_600 });
const recently = { last_refresh: new Date().toISOString() };

const SERVICES: Readonly<Record<string, unknown>> = {
  '/accounts/v1/user-auth-credential/whoami': {
    email: null,
    chatgpt_user_id: 'user-1',
    chatgpt_account_id: 'account-3',
    chatgpt_plan_type: 'pro',
    chatgpt_account_is_fedramp: true,
  },
  '/agent-identities/jwks': PUBLIC_KEYS,
  '/accounts/v1/agent/agent-runtime-1/task/register': { task_id: 'task-1' },
  '/refresh': { access_token: fresh, refresh_token: 'refresh-2' },
  '/oauth/token': {
    access_token: workloadToken,
    chatgpt_account_id: 'account-1',
    chatgpt_account_user_id: 'account-user-1',
    user_id: 'user-1',
    scope: 'codex',
    token_type: 'Bearer',
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    expires_in: 3_600,
  },
};

async function observe(kind: Kind, scenario: Scenario): Promise<Observed> {
  const {
    files = {},
    env = {},
    args = [],
    stdin,
    answers = [],
    base = '',
    environmentId = 'env-1',
  } = scenario;
  const [registry, service] = await Promise.all([FakeRegistry.open(), FakeAuthService.open()]);
  const waiting = [...answers];
  registry.answer = () => waiting.shift() ?? { status: 403, body: '' };
  service.answer = ({ line }) => ({ body: SERVICES[line.split(' ')[1]!] });
  const texts = Object.entries(files).map(([name, content]) => [
    name,
    typeof content === 'string' ? content : JSON.stringify(content),
  ]);
  const home = createHome(Object.fromEntries(texts));
  onTestFinished(() => removeFolder(home));
  const variables = {
    HOME: home,
    CODEX_HOME: home,
    CODEX_AUTHAPI_BASE_URL: `${service.url}/accounts`,
    CODEX_AGENT_IDENTITY_JWKS_BASE_URL: service.url,
    CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL: `${service.url}/accounts`,
    CODEX_REFRESH_TOKEN_URL_OVERRIDE: `${service.url}/refresh`,
    ...env,
    ...(env.OPENAI_IDENTITY_TOKEN_FILE && { OPENAI_IDENTITY_TOKEN_FILE: join(home, 'identity') }),
  };
  const target = ['--remote', `${registry.url}${base}`, '--environment-id', environmentId, ...args];
  const program =
    kind === 'reference'
      ? startProgram(binary as string, ['exec-server', ...target], { env: variables })
      : startBin(target, variables);
  onTestFinished(() => program.stop());
  if (stdin !== undefined) program.process.stdin!.write(stdin);
  const exitCode = await program.exited;
  return {
    exitCode,
    stderr: program.stderr(),
    registry: registry.asked.map(({ path, headers }) => ({ path, headers: withoutConnection(headers) })),
    services: service.asked.map(({ line, headers, text }) => ({
      line,
      authorization: headers.authorization,
      contentType: headers['content-type'],
      text,
    })),
    authJson: authJsonOf(home),
  };
}

function authJsonOf(home: string): Observed['authJson'] {
  try {
    return JSON.parse(readFileSync(join(home, 'auth.json'), 'utf8'));
  } catch {
    return null;
  }
}

/** The length of a body depends on nothing that signs in. */
function withoutConnection(headers: IncomingHttpHeaders): object {
  const { host, connection, 'content-length': length, ...rest } = headers;
  return rest;
}

async function observeBoth(
  scenario: Scenario,
): Promise<{ readonly ours: Observed; readonly reference: Observed }> {
  const reference = await observe('reference', scenario);
  return { reference, ours: await observe('exec-server', scenario) };
}

const credential = (more: object = {}) =>
  `${JSON.stringify({ version: 1, environment_id: 'env-1', token: 'token-1', expires_at: 4_000_000_000, ...more })}\n`;

describe.skipIf(skipped)('a registry sees the same requests as from the reference', () => {
  test.each<[string, Scenario]>([
    [
      'CODEX_API_KEY',
      { env: { CODEX_API_KEY: ' key-1 ' }, files: { 'auth.json': chatGptJson({}, recently) } },
    ],
    ['a ChatGPT login', { files: { 'auth.json': chatGptJson({}, recently) } }],
    [
      'a ChatGPT login of FedRAMP without an account',
      {
        files: {
          'auth.json': chatGptJson(
            {
              id_token: jwt({ 'https://api.openai.com/auth': { chatgpt_account_is_fedramp: true } }),
              account_id: null,
            },
            recently,
          ),
        },
      },
    ],
    [
      'a ChatGPT login that expires',
      { files: { 'auth.json': chatGptJson({ access_token: expired }, recently) } },
    ],
    [
      'a ChatGPT login that was not renewed for nine days',
      {
        files: {
          'auth.json': chatGptJson({}, { last_refresh: new Date(Date.now() - 9 * 86_400_000).toISOString() }),
        },
      },
    ],
    [
      'a ChatGPT login that the registry refuses',
      { files: { 'auth.json': chatGptJson({}, recently) }, answers: [{ status: 401, body: '' }] },
    ],
    [
      'a ChatGPT login that the registry refuses twice',
      {
        files: { 'auth.json': chatGptJson({}, recently) },
        answers: Array(3).fill({ status: 401, body: '' }),
      },
    ],
    ['an API key in auth.json', { files: { 'auth.json': { OPENAI_API_KEY: 'key-1', ...chatGptJson() } } }],
    [
      'an API key that the registry refuses',
      { env: { CODEX_API_KEY: 'key-1' }, answers: [{ status: 401, body: '' }] },
    ],
    ['a personal access token', { env: { CODEX_ACCESS_TOKEN: 'at-1' } }],
    ['a personal access token in auth.json', { files: { 'auth.json': { personal_access_token: 'at-1' } } }],
    [
      'forced_login_method',
      {
        env: { CODEX_API_KEY: 'key-1' },
        files: { 'auth.json': chatGptJson({}, recently), 'config.toml': 'forced_login_method = "chatgpt"' },
      },
    ],
    [
      'a credential pipe',
      { args: ['--executor-credential-stdin'], env: { CODEX_API_KEY: 'key-1' }, stdin: credential() },
    ],
    [
      'a piped credential that the registry refuses',
      {
        args: ['--executor-credential-stdin'],
        stdin: credential(),
        answers: [{ status: 401, body: '' }],
      },
    ],
    [
      'a registration that is refused for a moment',
      {
        env: { CODEX_API_KEY: 'key-1' },
        answers: [
          { status: 503, body: { error: { code: 'registration_conflict' } } },
          { status: 502, body: { detail: { code: 'authentication_service_unavailable' } } },
        ],
      },
    ],
    [
      'a path in the URL, and an environment id with other characters',
      { env: { CODEX_API_KEY: 'key-1' }, base: '/some/base/', environmentId: ' ä b=~! ' },
    ],
  ])('with %s', async (_what, scenario) => {
    const { ours, reference } = await observeBoth(scenario);
    expect(reference.registry.length).toBeGreaterThan(0);
    expect(ours.registry).toEqual(reference.registry);
    // The reference asks twice whose token it has.
    expect(ours.services).toEqual(
      reference.services.filter((_, at) => at === 0 || !isWhoami(reference.services[at]!)),
    );
    expect(ours.exitCode).toBe(reference.exitCode);
    const tokens = (observed: Observed) => observed.authJson?.tokens;
    expect(tokens(ours)).toEqual(tokens(reference));
  });

  test('with an agent identity', async () => {
    const scenario = {
      env: { CODEX_ACCESS_TOKEN: agent, CODEX_API_KEY: 'key-1' },
      args: ['--use-agent-identity-auth'],
    };
    const { ours, reference } = await observeBoth(scenario);
    expect([shapeOf(ours), checkedAssertion(ours)]).toEqual([
      shapeOf(reference),
      checkedAssertion(reference),
    ]);
    expect(checkedAssertion(ours)).toEqual({ agent_runtime_id: 'agent-runtime-1', task_id: 'task-1' });
  });

  test('with workload identity', async () => {
    const authority = certificates.authority('authority');
    const proxy = await tlsInterceptor(
      pem(certificates.signedBy(authority, 'auth', 'DNS:auth.openai.com')),
      (path, text) => {
        exchanges.push({ path, text });
        return JSON.stringify(SERVICES[path]);
      },
    );
    onTestFinished(() => proxy.close());
    const exchanges: object[] = [];
    const scenario = {
      files: { identity: 'identity-1\n', 'auth.json': chatGptJson({}, recently) },
      env: {
        OPENAI_FEDERATION_RULE_ID: 'rule-1',
        OPENAI_IDENTITY_TOKEN_FILE: 'identity',
        OPENAI_WORKLOAD_IDENTITY_CONTEXT: 'a b',
        HTTPS_PROXY: proxy.url,
        CODEX_CA_CERTIFICATE: authority.cert,
      },
    };
    const { ours, reference } = await observeBoth(scenario);
    expect(reference.registry).toMatchObject([
      { headers: { authorization: `Bearer ${workloadToken}`, 'chatgpt-account-id': 'account-1' } },
    ]);
    expect(ours.registry).toEqual(reference.registry);
    // The reference exchanges once or twice.
    expect(exchanges.length).toBeGreaterThan(1);
    expect(new Set(exchanges.map((exchange) => JSON.stringify(exchange))).size).toBe(1);
    expect(new Set(proxy.targets)).toEqual(new Set(['auth.openai.com:443']));
  });
});

describe.skipIf(skipped)('exits like the reference', () => {
  test.each<[string, Scenario, string]>([
    ['without a credential', {}, 'run `codex login` or set CODEX_API_KEY'],
    ['with OPENAI_API_KEY', { env: { OPENAI_API_KEY: 'key-1' } }, 'run `codex login` or set CODEX_API_KEY'],
    [
      'with an invalid auth.json',
      { files: { 'auth.json': '{"tokens":' } },
      'run `codex login` or set CODEX_API_KEY',
    ],
    [
      'with a login that is not permitted',
      { files: { 'auth.json': chatGptJson(), 'config.toml': 'forced_chatgpt_workspace_id = "other"' } },
      'run `codex login` or set CODEX_API_KEY',
    ],
    [
      'with a flag without its variable',
      { args: ['--use-agent-identity-auth'] },
      'CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set',
    ],
    [
      'with a personal token of an agent',
      { args: ['--use-agent-identity-auth'], env: { CODEX_ACCESS_TOKEN: 'at-1' } },
      'CODEX_ACCESS_TOKEN did not provide permitted Agent Identity authentication',
    ],
    [
      'with an invalid token of an agent',
      { args: ['--use-agent-identity-auth'], env: { CODEX_ACCESS_TOKEN: 'x' } },
      'Agent Identity authentication is unavailable',
    ],
    [
      "with an agent's token without the flag",
      { env: { CODEX_ACCESS_TOKEN: agent } },
      'Agent Identity auth requires --use-agent-identity-auth',
    ],
    [
      'with half of workload identity',
      { env: { OPENAI_FEDERATION_RULE_ID: 'r' } },
      'OPENAI_IDENTITY_TOKEN_FILE',
    ],
  ])('%s', async (_what, scenario, why) => {
    const { ours, reference } = await observeBoth(scenario);
    expect([reference.exitCode, reference.stderr, reference.registry]).toEqual([
      1,
      expect.stringContaining(why),
      [],
    ]);
    expect([ours.exitCode, ours.stderr, ours.registry]).toEqual([1, expect.stringContaining(why), []]);
  });

  test('with two kinds of credentials', async () => {
    const args = ['--use-agent-identity-auth', '--executor-credential-stdin'];
    const { ours, reference } = await observeBoth({ args });
    expect([ours.exitCode, reference.exitCode]).toEqual([2, 2]);
  });
});

test.skipIf(skipped || fileLock === null)('the reference waits for the lock of this project', async () => {
  const [registry, service] = await Promise.all([FakeRegistry.open(), FakeAuthService.open()]);
  registry.answer = () => ({ status: 403, body: '' });
  service.answer = () => ({ body: SERVICES['/refresh'] });
  const login = JSON.stringify(chatGptJson({ access_token: expired }, recently));
  const home = createHome({ 'auth.json': login });
  onTestFinished(() => removeFolder(home));
  const file = new AuthFile(home, fileLock, recordedLog().log);
  const program = await file.locked(async () => {
    const target = ['--remote', registry.url, '--environment-id', 'env-1'];
    const env = { HOME: home, CODEX_HOME: home, CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url };
    const started = startProgram(binary as string, ['exec-server', ...target], { env });
    onTestFinished(() => started.stop());
    const inode = String(statSync(join(home, 'auth.lock')).ino);
    // The kernel marks processes that wait for a lock with an arrow.
    const waiting = () =>
      readFileSync('/proc/locks', 'utf8')
        .split('\n')
        .some((line) => line.includes('-> FLOCK') && line.includes(`:${inode} `));
    await waitFor('the reference to wait for the lock', waiting);
    expect(readFileSync(file.path, 'utf8')).toBe(login);
    return started;
  });
  expect(await program.exited).toBe(1);
  expect(authJsonOf(home)).toMatchObject({ tokens: { refresh_token: 'refresh-2' } });
});

function isWhoami(request: object): boolean {
  return (request as { line: string }).line.endsWith('/whoami');
}

/** The requests without signatures and times. */
function shapeOf({ registry, services, exitCode }: Observed): unknown {
  const text = JSON.stringify([registry, services, exitCode]);
  return text.replace(/AgentAssertion [\w-]+/g, 'AgentAssertion').replace(/"text":"\{[^}]*\}"/g, '"text"');
}

/** The assertion that the registry received, without its time and its signature, which must be valid. */
function checkedAssertion({ registry }: Observed): object {
  const { headers } = registry[0] as { headers: { authorization: string } };
  const text = Buffer.from(headers.authorization.split(' ')[1]!, 'base64url').toString();
  const { signature, timestamp, ...rest } = JSON.parse(text);
  const signed = Buffer.from(`${rest.agent_runtime_id}:${rest.task_id}:${timestamp}`);
  expect(verify(null, signed, AGENT_PUBLIC_KEY, Buffer.from(signature, 'base64'))).toBe(true);
  expect(text).toBe(
    JSON.stringify({ agent_runtime_id: rest.agent_runtime_id, signature, task_id: rest.task_id, timestamp }),
  );
  return rest;
}

const AGENT_PUBLIC_KEY = createPublicKey({
  key: Buffer.from(
    '302a300506032b6570032100609eed01793ec7bc2091b7d2f209a0756b4cdfb762bcb6e7b9c05ca7787f9ee3',
    'hex',
  ),
  format: 'der',
  type: 'spki',
});
