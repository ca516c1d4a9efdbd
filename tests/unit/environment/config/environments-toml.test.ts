import { parse } from 'smol-toml';
import { describe, expect, it } from 'vitest';
import { ClientError } from '../../../../src/client/errors.ts';
import { parseEnvironments } from '../../../../src/environment/config/environments-toml.ts';
import type { RelaySettings } from '../../../../src/environment/config/relay-transport.ts';
import { TomlTable } from '../../../../src/environment/config/toml-table.ts';
import type { EnvironmentTransport, ProvidedEnvironments } from '../../../../src/environment/provider.ts';

const FILE = '/home/me/.codex/environments.toml';

function read(toml: string): ProvidedEnvironments {
  return parseEnvironments(new TomlTable(FILE, '', parse(toml)), '/home/me/.codex');
}

function refusal(toml: string): string {
  try {
    read(toml);
  } catch (error) {
    expect(error).toBeInstanceOf(ClientError);
    expect((error as ClientError).kind).toBe('config');
    const { message } = error as ClientError;
    expect(message.startsWith(`${FILE}: `)).toBe(true);
    return message.slice(FILE.length + 2);
  }
  throw new Error('it should have been refused');
}

const URL_ENVIRONMENT = '[[environments]]\nid = "a"\nurl = "ws://h:1"\n';
const PROGRAM_ENVIRONMENT = '[[environments]]\nid = "a"\nprogram = "p"\n';

describe('valid files', () => {
  it('an empty file: only this machine', () => {
    expect(read('')).toEqual({ environments: [], includeLocal: true, default: 'local' });
  });

  it('all keys of a URL environment', () => {
    const { environments } = read(`
      [[environments]]
      id = "gpu_1-A"
      url = "  wss://example.org/x?y=1  "
      auth_bearer_token = "secret"
      connect_timeout_sec = 2.5
      initialize_timeout_sec = 0
      recovery_window_sec = "none"
      skills = { required = ["a", "b"] }
    `);
    expect(environments).toEqual([
      {
        id: 'gpu_1-A',
        requiredSkills: ['a', 'b'],
        transport: {
          type: 'websocket',
          url: 'wss://example.org/x?y=1',
          authToken: 'secret',
          connectTimeoutMs: 2500,
          initializeTimeoutMs: 0,
          recoveryWindowMs: 'none',
        },
      },
    ]);
  });

  it('all keys of a relay environment', () => {
    const settings: RelaySettings[] = [];
    const relay = (given: RelaySettings): EnvironmentTransport => {
      settings.push(given);
      return { type: 'websocket', url: 'ws://made' };
    };
    const toml = `
      [[environments]]
      id = "near"
      registry_url = " https://relay.example/base "
      auth_bearer_token = "secret"
      [[environments]]
      id = "far"
      registry_url = "http://127.0.0.1:1"
      environment_id = "other"
      auth_bearer_token = "secret"
      initialize_timeout_sec = 3
      recovery_window_sec = 3600
    `;
    const { environments } = parseEnvironments(new TomlTable(FILE, '', parse(toml)), '/', relay);
    const authToken = 'secret';
    expect(settings).toEqual([
      { registryUrl: 'https://relay.example/base', environmentId: 'near', authToken, accountId: null },
      { registryUrl: 'http://127.0.0.1:1', environmentId: 'other', authToken, accountId: null },
    ]);
    expect(environments[1]!.transport).toEqual({
      type: 'websocket',
      url: 'ws://made',
      initializeTimeoutMs: 3_000,
      recoveryWindowMs: 3_600_000,
    });
  });

  it('all keys of a program environment', () => {
    const { environments } = read(`
      [[environments]]
      id = "box"
      program = " ssh "
      args = ["host", "exec-server"]
      env = { A = "1" }
      cwd = "work/here"
      initialize_timeout_sec = 30
    `);
    expect(environments[0]!.transport).toEqual({
      type: 'stdio',
      program: 'ssh',
      args: ['host', 'exec-server'],
      env: { A: '1' },
      cwd: '/home/me/.codex/work/here',
      initializeTimeoutMs: 30_000,
    });
  });

  it('defaults of absent keys', () => {
    expect(read(URL_ENVIRONMENT).environments).toEqual([
      {
        id: 'a',
        requiredSkills: [],
        transport: {
          type: 'websocket',
          url: 'ws://h:1',
          authToken: null,
          connectTimeoutMs: 10_000,
          initializeTimeoutMs: 10_000,
        },
      },
    ]);
    expect(read(PROGRAM_ENVIRONMENT).environments[0]!.transport).toMatchObject({
      args: [],
      env: {},
      cwd: null,
    });
  });

  it('an absolute cwd stays unchanged', () => {
    expect(read(`${PROGRAM_ENVIRONMENT}cwd = "/srv"`).environments[0]!.transport).toMatchObject({
      cwd: '/srv',
    });
  });

  it('environments keep the order of the file', () => {
    const toml = ['z', 'a', 'm'].map((id) => `[[environments]]\nid = "${id}"\nurl = "ws://h:1"\n`).join('');
    expect(read(toml).environments.map(({ id }) => id)).toEqual(['z', 'a', 'm']);
  });

  it('`remote` and 64 characters are valid ids', () => {
    for (const id of ['remote', 'x'.repeat(64)]) {
      expect(read(URL_ENVIRONMENT.replace('"a"', `"${id}"`)).environments[0]!.id).toBe(id);
    }
  });
});

describe('the default', () => {
  it.each([
    ['is this machine when it is an environment', '', 'local'],
    ['is none without this machine', 'include_local = false\n', null],
    ['is none when the file says so, in any case', 'default = " NONE "\n', null],
    ['is an environment of the file', 'default = " a "\n', 'a'],
    [
      'is an environment of the file also without this machine',
      'default = "a"\ninclude_local = false\n',
      'a',
    ],
    ['is this machine by name', 'default = "local"\n', 'local'],
  ])('%s', (_name, head, expected) => {
    expect(read(head + URL_ENVIRONMENT).default).toBe(expected);
  });

  it.each([
    ['default = ""\n', "'default' is empty; write one of local, a, none"],
    ['default = "b"\n', "'default' is 'b', which is no environment; write one of local, a, none"],
    [
      'default = "local"\ninclude_local = false\n',
      "'default' is 'local', which is no environment; set include_local = true, or write one of a, none",
    ],
    ['default = 1\n', '\'default\' is a number, not a string; write default = "…"'],
  ])('is rejected: %j', (head, expected) => {
    expect(refusal(head + URL_ENVIRONMENT)).toBe(expected);
  });
});

describe('ids', () => {
  const prefix = '[[environments]] number 1: ';
  it.each([
    [undefined, '\'id\' is missing; write id = "a-name"'],
    ['1', '\'id\' is a number, not a string; write id = "…"'],
    ['" a"', "the id ' a' has leading or trailing spaces; remove them"],
    ['"local"', "the id 'local' is reserved; choose another one"],
    ['"None"', "the id 'None' is reserved; choose another one"],
    ['""', "'' is not a valid id; use one or more letters, digits, - and _"],
    ['"a.b"', "'a.b' is not a valid id; use one or more letters, digits, - and _"],
    ['"a\\u0007"', "'a\\u0007' is not a valid id; use one or more letters, digits, - and _"],
    [`"${'x'.repeat(65)}"`, `the id '${'x'.repeat(65)}' is longer than 64 characters; choose a shorter one`],
  ])('like %s are rejected', (id, expected) => {
    const line = id === undefined ? '' : `id = ${id}\n`;
    expect(refusal(`[[environments]]\n${line}url = "ws://h:1"\n`)).toBe(prefix + expected);
  });

  it('must be unique', () => {
    expect(refusal(URL_ENVIRONMENT + URL_ENVIRONMENT)).toBe(
      "[[environments]] number 2: the id 'a' is taken by an environment above; ids must differ",
    );
  });
});

describe('keys of an environment', () => {
  const prefix = "[[environments]] 'a': ";
  const either = 'write url for a server that runs, or program for one to start, and not both';
  it.each([
    [`${URL_ENVIRONMENT}program = "p"`, `it has both 'url' and 'program'; ${either}`],
    [
      `${URL_ENVIRONMENT}registry_url = "https://h"`,
      "it has both 'registry_url' and 'url'; write only one of them",
    ],
    [
      `${PROGRAM_ENVIRONMENT}environment_id = "b"`,
      "'environment_id' is only valid together with 'registry_url'; remove environment_id, or use registry_url",
    ],
    [
      '[[environments]]\nid = "a"\nregistry_url = "wss://h"\n',
      "'registry_url' is 'wss://h', which is not an HTTP URL; write https://HOST",
    ],
    [
      '[[environments]]\nid = "a"\nregistry_url = "https://h"\n',
      "'auth_bearer_token' is missing; registries require a token",
    ],
    ['[[environments]]\nid = "a"\n', `it has neither 'url' nor 'program'; ${either}`],
    [
      `${URL_ENVIRONMENT}port = 1`,
      "unknown key 'port'; the keys here are id, url, auth_bearer_token, connect_timeout_sec, program, args, env, cwd, registry_url, environment_id, initialize_timeout_sec, recovery_window_sec, skills",
    ],
    ...['args = []', 'env = {}', 'cwd = "/"'].map((line) => {
      const key = line.split(' ')[0];
      const expected = `'${key}' is only valid together with 'program'; remove ${key}, or use program`;
      return [URL_ENVIRONMENT + line, expected];
    }),
    ...['auth_bearer_token = "t"', 'connect_timeout_sec = 1'].map((line) => {
      const key = line.split(' ')[0];
      const expected = `'${key}' is only valid together with 'url'; remove ${key}, or use url`;
      return [PROGRAM_ENVIRONMENT + line, expected];
    }),
    ...['http://h', 'ws:/h', 'ws://', 'WS://h', ''].map((url) => [
      `[[environments]]\nid = "a"\nurl = "${url}"`,
      `'url' is '${url}', which is no websocket URL; write ws://HOST:PORT or wss://HOST`,
    ]),
    ['[[environments]]\nid = "a"\nprogram = "  "', "'program' is empty; write the name or path of a program"],
    [`${PROGRAM_ENVIRONMENT}args = "x"`, '\'args\' is not a list of strings; write args = ["…", "…"]'],
    [`${PROGRAM_ENVIRONMENT}args = [1]`, '\'args\' is not a list of strings; write args = ["…", "…"]'],
    [
      `${PROGRAM_ENVIRONMENT}env = { A = 1 }`,
      '\'env\' is not a table of strings; write env = { NAME = "value" }',
    ],
    [`${PROGRAM_ENVIRONMENT}cwd = true`, '\'cwd\' is a truth value, not a string; write cwd = "…"'],
    ...['-1', 'nan', 'inf', '2147484'].map((value) => [
      `${URL_ENVIRONMENT}connect_timeout_sec = ${value}`,
      `'connect_timeout_sec' is ${{ nan: 'NaN', inf: 'Infinity' }[value] ?? value}; write seconds from 0 to 2147483`,
    ]),
    [
      `${PROGRAM_ENVIRONMENT}initialize_timeout_sec = "5"`,
      "'initialize_timeout_sec' is a string, not a number; write initialize_timeout_sec = 10, without quotes",
    ],
    [
      `${URL_ENVIRONMENT}recovery_window_sec = "1h"`,
      '\'recovery_window_sec\' is a string, not a number; write seconds without quotes, such as 3600, or "none" for no limit',
    ],
    [
      `${URL_ENVIRONMENT}recovery_window_sec = -1`,
      "'recovery_window_sec' is -1; write seconds from 0 to 2147483",
    ],
    [
      `${PROGRAM_ENVIRONMENT}recovery_window_sec = 60`,
      "'recovery_window_sec' is not valid together with 'program': a program ends with its connection; remove recovery_window_sec, or use url or registry_url",
    ],
    [
      `${URL_ENVIRONMENT}auth_bearer_token = 2020-01-01`,
      '\'auth_bearer_token\' is a date, not a string; write auth_bearer_token = "…"',
    ],
  ])('are rejected: %j', (toml, expected) => {
    expect(refusal(toml!)).toBe(prefix + expected);
  });

  it('in `skills` are validated, too', () => {
    expect(refusal(`${URL_ENVIRONMENT}skills = ["a"]`)).toBe(
      "[[environments]] 'a': 'skills' is a list, not a table; write skills = { … }",
    );
    expect(refusal(`${URL_ENVIRONMENT}skills = { require = [] }`)).toBe(
      "[[environments]] 'a' skills: unknown key 'require'; the keys here are required",
    );
    expect(refusal(`${URL_ENVIRONMENT}skills = { required = ["a", " "] }`)).toBe(
      "[[environments]] 'a': 'skills.required' has a blank name; write the names of skills",
    );
    expect(refusal(`${URL_ENVIRONMENT}skills = { required = "a" }`)).toBe(
      '[[environments]] \'a\' skills: \'required\' is not a list of strings; write required = ["…", "…"]',
    );
  });
});

it.each([
  ['defaults = "a"', "unknown key 'defaults'; the keys here are default, include_local, environments"],
  [
    'include_local = "no"',
    "'include_local' is a string, not a truth value; write include_local = true or include_local = false",
  ],
  [
    'environments = 1',
    "'environments' is not a list of tables; write [[environments]] above the keys of each",
  ],
  [
    'environments = [1]',
    "'environments' is not a list of tables; write [[environments]] above the keys of each",
  ],
  [
    `${'k'.repeat(90)} = 1`,
    `unknown key '${'k'.repeat(80)}…'; the keys here are default, include_local, environments`,
  ],
])('the file is rejected: %j', (toml, expected) => {
  expect(refusal(toml)).toBe(expected);
});
