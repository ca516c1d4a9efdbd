import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type SignInOptions, signIn } from '../../../../src/relay/sign-in/sign-in.ts';
import {
  agentToken,
  chatGptJson,
  codexFolder,
  FakeAuthService,
  fileLock,
  jwt,
  PUBLIC_KEYS,
  recordedLog,
  signal,
} from './auth-fixture.ts';

const WHOAMI = {
  email: null,
  chatgpt_user_id: 'user-1',
  chatgpt_account_id: 'account-3',
  chatgpt_plan_type: 'pro',
  chatgpt_account_is_fedramp: true,
};
/** Not expired on the machine that runs the tests. */
const AGENT = { exp: Math.floor(Date.now() / 1_000) + 3_600 };
/** A login that is not due for a renewal on the machine that runs the tests. */
const recentLogin = (tokens: object = {}) => chatGptJson(tokens, { last_refresh: new Date().toISOString() });
const REGISTRY = 'https://registry.example';

type Variables = Record<string, string | undefined>;

async function open(files: Record<string, unknown> = {}) {
  const service = await FakeAuthService.open();
  service.answer = ({ line }) => {
    if (line.endsWith('/whoami')) return { body: WHOAMI };
    return { body: line.endsWith('/jwks') ? PUBLIC_KEYS : { task_id: 'task-1' } };
  };
  const home = codexFolder(files);
  const { log, lines } = recordedLog();
  const overrides = {
    CODEX_HOME: home,
    CODEX_AUTHAPI_BASE_URL: `${service.url}/accounts/`,
    CODEX_AGENT_IDENTITY_JWKS_BASE_URL: service.url,
    CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL: service.url,
    CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url,
  };
  const start = (env: Variables, more: Partial<SignInOptions> = {}) =>
    signIn({ registryUrl: REGISTRY, env: { ...overrides, ...env }, log, fileLock, ...more }, signal);
  const headers = async (env: Variables, more: Partial<SignInOptions> = {}) =>
    (await start(env, more)).headers();
  return { service, home, start, headers, lines };
}

const bearer = (token: string, account?: string) => ({
  authorization: `Bearer ${token}`,
  ...(account !== undefined && { 'chatgpt-account-id': account }),
});
const personal = { ...bearer('at-1', 'account-3'), 'x-openai-fedramp': 'true' };
const LOOPBACK = { registryUrl: 'http://127.0.0.1:1' };
const ALL_FILES = { 'auth.json': recentLogin() };
const WORKLOAD = { OPENAI_FEDERATION_RULE_ID: 'rule-1' };
const NO_CREDENTIAL =
  /^remote exec-server registration requires ChatGPT authentication or API key authentication; run `codex login` or set CODEX_API_KEY/;

describe('precedence', () => {
  const variables = { CODEX_API_KEY: ' key-1 ', CODEX_ACCESS_TOKEN: 'at-1' };

  test('an agent identity that is asked for comes before keys and logins', async () => {
    const { service, headers } = await open(ALL_FILES);
    const env = { ...variables, EXEC_SERVER_API_KEY: 'own-1', CODEX_ACCESS_TOKEN: agentToken(AGENT) };
    const sent = await headers(env, { useAgentIdentity: true });
    expect(sent.authorization).toMatch(/^AgentAssertion /);
    expect(service.lines()).toHaveLength(2);
  });

  test('EXEC_SERVER_API_KEY comes next, and codex is not configured then', async () => {
    const { headers } = await open({ ...ALL_FILES, 'config.toml': 'not TOML' });
    expect(await headers({ ...variables, ...WORKLOAD, EXEC_SERVER_API_KEY: 'own-1' })).toEqual(
      bearer('own-1'),
    );
  });

  test.each([
    [{ OPENAI_FEDERATION_RULE_ID: 'rule-1' }, 'needs OPENAI_IDENTITY_TOKEN_FILE'],
    [{ OPENAI_IDENTITY_TOKEN_FILE: '/x' }, 'needs OPENAI_FEDERATION_RULE_ID'],
  ])('workload identity comes next, even if incomplete: %j', async (env, why) => {
    const { start } = await open(ALL_FILES);
    await expect(start({ ...env, CODEX_ACCESS_TOKEN: 'at-1' })).rejects.toThrow(why);
  });

  test('workload identity signs in at the start', async () => {
    const { start } = await open(ALL_FILES);
    const env = { OPENAI_FEDERATION_RULE_ID: 'rule-1', OPENAI_IDENTITY_TOKEN_FILE: '/nowhere/token' };
    await expect(start(env)).rejects.toThrow('/nowhere/token does not exist');
  });

  test('CODEX_API_KEY comes next', async () => {
    const { headers } = await open(ALL_FILES);
    expect(await headers(variables, LOOPBACK)).toEqual(bearer('key-1'));
  });

  test.each(['', ' '])(
    'a personal access token comes next, after a blank CODEX_API_KEY %j',
    async (blank) => {
      const { headers, service } = await open(ALL_FILES);
      expect(await headers({ ...variables, CODEX_API_KEY: blank })).toEqual(personal);
      expect(service.asked).toMatchObject([
        { line: 'GET /accounts/v1/user-auth-credential/whoami', headers: { authorization: 'Bearer at-1' } },
      ]);
    },
  );

  test('the login of codex comes last', async () => {
    const { headers } = await open(ALL_FILES);
    expect(await headers({})).toEqual(bearer('access-1', 'account-1'));
  });

  test('without any there is an error with advice', async () => {
    const { start } = await open();
    await expect(start({ OPENAI_API_KEY: 'ignored' })).rejects.toThrow(NO_CREDENTIAL);
    await expect(start({})).rejects.toMatchObject({ name: 'CredentialError' });
  });

  test('workload identity cannot be combined with another selection', async () => {
    const { start, service } = await open();
    await expect(start({ ...WORKLOAD, CODEX_API_KEY: 'key-1' })).rejects.toThrow(
      'CODEX_API_KEY cannot be combined with the variables of workload identity',
    );
    const env = { ...WORKLOAD, CODEX_ACCESS_TOKEN: agentToken(AGENT) };
    await expect(start(env, { useAgentIdentity: true })).rejects.toThrow('cannot be combined');
    expect(service.asked).toEqual([]);
  });
});

describe('an agent identity', () => {
  test.each([
    [{}, 'CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set'],
    [{ CODEX_ACCESS_TOKEN: ' ' }, 'CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set'],
    [
      { CODEX_ACCESS_TOKEN: 'at-1' },
      'CODEX_ACCESS_TOKEN did not provide permitted Agent Identity authentication',
    ],
    [{ CODEX_ACCESS_TOKEN: 'x' }, 'Agent Identity authentication is unavailable: '],
  ])('is refused with %j', async (env, why) => {
    const { start, service } = await open(ALL_FILES);
    await expect(start(env, { useAgentIdentity: true })).rejects.toThrow(why);
    expect(service.asked).toEqual([]);
  });

  test.each([
    [{ CODEX_ACCESS_TOKEN: agentToken(AGENT) }, {}],
    [{}, { 'auth.json': { auth_mode: 'agentIdentity', agent_identity: agentToken(AGENT) } }],
  ])('needs the flag', async (env, files) => {
    const { start, service } = await open(files);
    await expect(start(env)).rejects.toThrow('Agent Identity auth requires --use-agent-identity-auth');
    expect(service.asked).toEqual([]);
  });
});

describe('a key of OpenAI', () => {
  const stored = { 'auth.json': { OPENAI_API_KEY: 'key-1' } };
  const key = { CODEX_API_KEY: 'key-1' };

  test.each([
    'https://openai.com',
    'https://api.openai.com/v1/agents/api/connect/rt_1',
    'https://a.b.OpenAI.org',
    'http://localhost:1',
    'https://127.0.0.1:1',
    'http://[::1]:1',
  ])('is sent to %s', async (registryUrl) => {
    const { headers } = await open(stored);
    expect(await headers(key, { registryUrl })).toEqual(bearer('key-1'));
    expect(await headers({}, { registryUrl })).toEqual(bearer('key-1'));
  });

  test.each([
    'https://registry.example',
    'https://notopenai.com',
    'https://openai.com.example',
    'https://192.0.2.1',
  ])('is not sent to %s', async (registryUrl) => {
    const { start } = await open(stored);
    const refused = /is sent only to openai\.com, openai\.org and this machine\. .* set EXEC_SERVER_API_KEY$/;
    await expect(start(key, { registryUrl })).rejects.toThrow(refused);
    await expect(start({}, { registryUrl })).rejects.toThrow(refused);
  });
});

test.each([
  [{ CODEX_API_KEY: 'k' }, {}],
  [{ EXEC_SERVER_API_KEY: 'k' }, {}],
  [{ CODEX_ACCESS_TOKEN: 'at-1' }, {}],
  [{ CODEX_ACCESS_TOKEN: agentToken(AGENT) }, { useAgentIdentity: true }],
  [{ OPENAI_FEDERATION_RULE_ID: 'r', OPENAI_IDENTITY_TOKEN_FILE: '/x' }, {}],
  [{}, {}],
])('sends nothing for a registry without TLS on another machine (%#)', async (env, more) => {
  const { start, service } = await open(ALL_FILES);
  for (const registryUrl of ['http://192.0.2.1', 'http://api.openai.com']) {
    await expect(start(env as Variables, { ...more, registryUrl })).rejects.toThrow(
      'must begin with https://',
    );
  }
  expect(service.asked).toEqual([]);
});

describe('auth.json', () => {
  test.each([
    [{ OPENAI_API_KEY: 'key-1', ...recentLogin() }, bearer('key-1')],
    [{ auth_mode: 'chatgpt', OPENAI_API_KEY: 'key-1', ...recentLogin() }, bearer('access-1', 'account-1')],
    [{ auth_mode: 'chatgptAuthTokens', ...recentLogin() }, bearer('access-1', 'account-1')],
    [{ auth_mode: 'apikey', OPENAI_API_KEY: 'key-1', personal_access_token: 'at-1' }, bearer('key-1')],
    [{ personal_access_token: 'at-1', OPENAI_API_KEY: 'key-1' }, personal],
    [{ auth_mode: 'personalAccessToken', personal_access_token: 'at-1' }, personal],
    [{ ...recentLogin(), agent_identity: { agent_runtime_id: 'x' } }, bearer('access-1', 'account-1')],
  ])('selects its own credential: %#', async (json, expected) => {
    const { headers } = await open({ 'auth.json': json });
    expect(await headers({}, LOOPBACK)).toEqual(expected);
  });

  test.each([
    ['{', 'is not a JSON object'],
    [{}, 'its tokens are missing or not valid'],
    [recentLogin({ id_token: 'x' }), 'its tokens are missing or not valid'],
    [{ auth_mode: 'apikey' }, 'it has no OPENAI_API_KEY'],
    [{ auth_mode: 'personalAccessToken' }, 'it has no personal_access_token'],
    [{ auth_mode: 'bedrockApiKey' }, 'its auth_mode "bedrockApiKey" is not supported'],
  ])('is no login: %#', async (json, why) => {
    const { start } = await open({ 'auth.json': json });
    await expect(start({})).rejects.toThrow(NO_CREDENTIAL);
    await expect(start({})).rejects.toThrow(why);
  });

  test('is looked for in .codex of the home directory', async () => {
    const { start, headers, home } = await open();
    const env = { CODEX_HOME: '', HOME: home };
    await expect(start(env)).rejects.toThrow(NO_CREDENTIAL);
    mkdirSync(join(home, '.codex'));
    writeFileSync(join(home, '.codex', 'auth.json'), JSON.stringify(recentLogin()));
    expect(await headers(env)).toEqual(bearer('access-1', 'account-1'));
  });
});

describe('config.toml of codex', () => {
  const withConfig = (text: string) => open({ ...ALL_FILES, 'config.toml': text });

  test.each([
    ['forced_login_method = "chatgpt"', { CODEX_API_KEY: 'key-1' }, bearer('access-1', 'account-1')],
    ['forced_login_method = "api"', { CODEX_ACCESS_TOKEN: 'at-1', CODEX_API_KEY: 'key-1' }, bearer('key-1')],
    ['forced_chatgpt_workspace_id = "account-1"', {}, bearer('access-1', 'account-1')],
    ['forced_chatgpt_workspace_id = ["x", "account-1"]', {}, bearer('access-1', 'account-1')],
    ['forced_chatgpt_workspace_id = "x"', { CODEX_API_KEY: 'key-1' }, bearer('key-1')],
    ['cli_auth_credentials_store = "auto"', {}, bearer('access-1', 'account-1')],
    ['cli_auth_credentials_store = "file"\n[projects.x]\ny = 1', {}, bearer('access-1', 'account-1')],
  ])('%s permits a credential', async (config, env, expected) => {
    const { headers } = await withConfig(config);
    expect(await headers(env as Variables, LOOPBACK)).toEqual(expected);
  });

  test.each([
    ['forced_login_method = "api"', {}, 'forced_login_method is api'],
    ['forced_login_method = "api"', { CODEX_ACCESS_TOKEN: 'at-1' }, 'forced_login_method is api'],
    ['forced_chatgpt_workspace_id = "x"', {}, 'its account is not in forced_chatgpt_workspace_id'],
    [
      'forced_chatgpt_workspace_id = "x"',
      { CODEX_ACCESS_TOKEN: 'at-1' },
      'is not in forced_chatgpt_workspace_id',
    ],
    ['cli_auth_credentials_store = "keyring"', {}, "in the system's keyring (cli_auth_credentials_store)"],
    ['cli_auth_credentials_store = "ephemeral"', {}, 'cli_auth_credentials_store is ephemeral'],
  ])('%s refuses %j', async (config, env, why) => {
    const { start } = await withConfig(config);
    await expect(start(env as Variables)).rejects.toThrow(NO_CREDENTIAL);
    await expect(start(env as Variables)).rejects.toThrow(why);
  });

  test('a login that may be in the keyring is named', async () => {
    const { start } = await open({ 'config.toml': 'cli_auth_credentials_store = "auto"' });
    await expect(start({})).rejects.toThrow(/auth\.json does not exist, and codex keeps .* keyring/);
  });

  test.each([
    ['forced_login_method = "api"', { CODEX_ACCESS_TOKEN: agentToken(AGENT) }, { useAgentIdentity: true }],
    ['forced_login_method = "api"', { OPENAI_FEDERATION_RULE_ID: 'r', OPENAI_IDENTITY_TOKEN_FILE: '/x' }, {}],
  ])('%s refuses an identity of ChatGPT %#', async (config, env, more) => {
    const { start, service } = await withConfig(config);
    await expect(start(env as Variables, more)).rejects.toThrow('forced_login_method permits only API keys');
    expect(service.asked).toEqual([]);
  });

  test.each([
    ['forced_login_method = "other"', 'forced_login_method must be one of api, chatgpt'],
    ['forced_chatgpt_workspace_id = 1', 'must be a string or a list of strings'],
    ['chatgpt_base_url = 1', 'chatgpt_base_url must be a string'],
    ['cli_auth_credentials_store = "x"', 'must be one of file, keyring, auto, ephemeral'],
    ['x', 'config.toml:1:1: not valid TOML'],
  ])('%s is not valid', async (config, why) => {
    const { start } = await withConfig(config);
    await expect(start({})).rejects.toThrow(why);
  });
});

describe('a personal access token', () => {
  test.each([
    [{ status: 401, body: 'at-1' }, /HTTP 401$/],
    [{ body: {} }, /is not valid$/],
    [{ body: { ...WHOAMI, chatgpt_account_id: 'a b' } }, /invalid characters/],
    ['cut' as const, /cannot reach 127\.0\.0\.1/],
  ])('is refused after %j', async (reply, why) => {
    const { start, service } = await open();
    service.answer = () => reply;
    await expect(start({ CODEX_ACCESS_TOKEN: 'at-1' })).rejects.toThrow(why);
    await expect(start({ CODEX_ACCESS_TOKEN: 'at-1' })).rejects.not.toThrow(/at-1/);
  });

  test('is not sent to an unencrypted service', async () => {
    const { start } = await open();
    const env = { CODEX_ACCESS_TOKEN: 'at-1', CODEX_AUTHAPI_BASE_URL: 'http://192.0.2.1' };
    await expect(start(env)).rejects.toThrow('CODEX_AUTHAPI_BASE_URL must begin with https://');
  });
});

test('a credential that is not valid in a header is named, not shown', async () => {
  const { start } = await open({ 'auth.json': { OPENAI_API_KEY: 'se cret' } });
  for (const env of [{ EXEC_SERVER_API_KEY: 'se cret' }, { CODEX_API_KEY: 'se cret' }, {}]) {
    const error = await start(env as Variables, LOOPBACK).catch((failure: Error) => failure);
    expect(error).toMatchObject({ name: 'CredentialError', message: expect.stringContaining('API_KEY') });
    expect((error as Error).message).not.toContain('cret');
  }
});

test('logs no secret', async () => {
  const secret = jwt({ secret: 1 });
  const { headers, lines, service } = await open({
    'auth.json': recentLogin({ access_token: jwt({ exp: 1 }), refresh_token: secret }),
  });
  service.answer = () => ({ status: 400, body: { error: secret } });
  await headers({});
  expect(lines.join()).toContain('cannot renew the login');
  expect(lines.join()).not.toContain('eyJ');
});
