import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ClientError } from '../../../../src/client/errors.ts';
import type { RelaySettings } from '../../../../src/environment/config/relay-transport.ts';
import { configuredEnvironments, discoverEnvironments } from '../../../../src/environment/config/sources.ts';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'sources-'));
});
afterEach(() => {
  rmSync(home, { recursive: true, force: true });
});

const RELAY = {
  CODEX_EXEC_SERVER_NOISE_REGISTRY_URL: 'https://registry',
  CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID: 'env-1',
  CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN: ' token ',
};
const URL_VARIABLE = { CODEX_EXEC_SERVER_URL: 'ws://variable:1' };

function write(name: string, text: string | Uint8Array): string {
  const path = join(home, name);
  writeFileSync(path, text);
  return path;
}

function discover(env: Record<string, string> = {}) {
  return discoverEnvironments({ env, codexHome: home });
}

async function refusal(env: Record<string, string> = {}): Promise<ClientError> {
  return discover(env).then(
    () => {
      throw new Error('it should have been refused');
    },
    (error: unknown) => error as ClientError,
  );
}

function onlyRemote(url: string) {
  return {
    environments: [{ id: 'remote', transport: { type: 'websocket', url } }],
    default: 'remote',
    includeLocal: false,
    defaultIsRemote: true,
  };
}

const NOTHING = { environments: [], default: null, includeLocal: false, defaultIsRemote: false };
const LOCAL = { environments: [], default: 'local', includeLocal: true, defaultIsRemote: false };

describe('precedence', () => {
  it('without configuration there is only this machine', async () => {
    expect(await discover()).toEqual({ ...LOCAL, source: null });
  });

  it('config.toml overrides the default', async () => {
    const source = write('config.toml', 'model = "x"\n[exec_server]\nurl = "ws://file:1"\nother = 1\n');
    expect(await discover()).toEqual({ ...onlyRemote('ws://file:1'), source });
  });

  it('CODEX_EXEC_SERVER_URL overrides config.toml, which is not read', async () => {
    write('config.toml', 'this is not TOML');
    const source = 'CODEX_EXEC_SERVER_URL';
    expect(await discover(URL_VARIABLE)).toEqual({ ...onlyRemote('ws://variable:1'), source });
    expect(await discover({ CODEX_EXEC_SERVER_URL: ' NoNe ' })).toEqual({ ...NOTHING, source });
  });

  it('environments.toml overrides CODEX_EXEC_SERVER_URL, even when it is empty', async () => {
    const source = write('environments.toml', '');
    expect(await discover(URL_VARIABLE)).toEqual({ ...LOCAL, source });
  });

  it('the relay variables override environments.toml, which is not read', async () => {
    write('environments.toml', 'this is not TOML');
    const seen: RelaySettings[] = [];
    const found = await discoverEnvironments({
      env: { ...RELAY, ...URL_VARIABLE },
      codexHome: home,
      relay: (settings) => {
        seen.push(settings);
        return { type: 'websocket', url: 'ws://relay' };
      },
    });
    expect(found).toEqual({
      ...onlyRemote('ws://relay'),
      source: 'CODEX_EXEC_SERVER_NOISE_REGISTRY_URL',
    });
    expect(seen).toEqual([
      { registryUrl: 'https://registry', environmentId: 'env-1', authToken: 'token', accountId: null },
    ]);
  });
});

describe('CODEX_EXEC_SERVER_URL', () => {
  it.each(['', '   '])('%j counts as not set', async (value) => {
    expect(await discover({ CODEX_EXEC_SERVER_URL: value })).toEqual({ ...LOCAL, source: null });
  });

  it('is trimmed', async () => {
    const found = await discover({ CODEX_EXEC_SERVER_URL: ' http://nonsense ' });
    expect(found).toMatchObject(onlyRemote('http://nonsense'));
  });
});

describe('config.toml', () => {
  it.each(['', '[exec_server]\n', '[exec_server]\nurl = ""\n', '[exec_server]\nurl = "  "\n'])(
    '%j says nothing',
    async (text) => {
      write('config.toml', text);
      expect(await discover()).toEqual({ ...LOCAL, source: null });
    },
  );

  it('can disable all environments', async () => {
    const source = write('config.toml', '[exec_server]\nurl = "none"\n');
    expect(await discover()).toEqual({ ...NOTHING, source });
  });

  it.each([
    ['exec_server = 1\n', "'exec_server' is a number, not a table; write exec_server = { … }"],
    ['[exec_server]\nurl = 1\n', 'exec_server: \'url\' is a number, not a string; write url = "…"'],
  ])('%j is rejected', async (text, expected) => {
    const path = write('config.toml', text);
    expect(await refusal()).toMatchObject({ kind: 'config', message: `${path}: ${expected}` });
  });
});

describe('the relay variables', () => {
  it('use the transport of this library', async () => {
    const { environments } = await discoverEnvironments({ env: RELAY, codexHome: home });
    expect(environments).toMatchObject([{ id: 'remote', transport: { type: 'opener', resumable: true } }]);
  });

  it.each(Object.keys(RELAY))('are rejected without %s', async (name) => {
    const error = await refusal({ ...RELAY, [name]: '  ' });
    expect(error).toMatchObject({ kind: 'config' });
    expect(error.message).toContain(`without ${name}; set ${name}, or none of `);
  });

  it('may name an account', async () => {
    let accountId: string | null = null;
    await discoverEnvironments({
      env: { ...RELAY, CODEX_EXEC_SERVER_NOISE_CHATGPT_ACCOUNT_ID: 'me' },
      codexHome: home,
      relay: (settings) => {
        accountId = settings.accountId;
        return { type: 'websocket', url: 'ws://relay' };
      },
    });
    expect(accountId).toBe('me');
  });
});

describe('a file', () => {
  it('that is not TOML is rejected with line and column', async () => {
    const path = write('environments.toml', 'default = "a"\nid == 3\n');
    const error = await refusal();
    expect(error.kind).toBe('config');
    expect(error.message).toMatch(/^.*environments\.toml:2:\d+: not valid TOML: [^\n]+$/);
    expect(error.message.startsWith(path)).toBe(true);
  });

  it('that is not UTF-8 is rejected', async () => {
    const path = write('environments.toml', new Uint8Array([0xff, 0xfe]));
    expect((await refusal()).message).toBe(`${path}: not valid TOML: the file is not UTF-8 text`);
  });

  it('that is a directory is rejected', async () => {
    const path = join(home, 'environments.toml');
    mkdirSync(path);
    expect((await refusal()).message).toBe(
      `cannot read ${path}: it is a directory; make it a readable file or remove it`,
    );
  });

  it('larger than 1 MiB is rejected, one of exactly 1 MiB is read', async () => {
    const path = write('environments.toml', `#${'x'.repeat(1024 * 1024)}`);
    expect((await refusal()).message).toContain(`cannot read ${path}: it is larger than 1 MiB`);
    write('environments.toml', `#${'x'.repeat(1024 * 1024 - 1)}`);
    expect(await discover()).toMatchObject(LOCAL);
  });

  it('is read from CODEX_HOME, else from the home directory', async () => {
    write('environments.toml', 'default = "none"');
    expect(await discoverEnvironments({ env: { CODEX_HOME: home } })).toMatchObject({ default: null });
    const user = join(home, 'user');
    mkdirSync(join(user, '.codex'), { recursive: true });
    writeFileSync(join(user, '.codex', 'environments.toml'), 'include_local = false');
    expect(await discoverEnvironments({ env: { HOME: user } })).toMatchObject({ includeLocal: false });
  });

  it('in a missing home directory counts as absent', async () => {
    const missing = join(home, 'missing');
    expect(await discoverEnvironments({ env: { CODEX_HOME: missing } })).toMatchObject(LOCAL);
  });
});

it('the provider returns the discovered environments', async () => {
  write('environments.toml', '[[environments]]\nid = "a"\nurl = "ws://h:1"\n');
  const snapshot = await configuredEnvironments({ env: {}, codexHome: home }).snapshot();
  expect(snapshot.environments.map(({ id }) => id)).toEqual(['a']);
});
