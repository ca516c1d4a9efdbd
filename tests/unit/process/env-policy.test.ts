import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { childEnvironment, type EnvMetadata, type EnvPolicy } from '../../../src/process/env-policy.ts';

const SERVER = {
  PATH: '/bin',
  path: 'lower case',
  HOME: '/root',
  LANG: 'C',
  TMPDIR: '/tmp',
  EDITOR: 'vi',
  API_KEY: 'k',
  MonKeyBars: 'm',
  my_secret: 's',
  GITHUB_TOKEN: 't',
  EMPTY: '',
  UNSET: undefined,
};

const EVERYTHING: EnvPolicy = {
  inherit: 'all',
  ignoreDefaultExcludes: true,
  exclude: [],
  set: {},
  includeOnly: [],
};

function child(
  policy: Partial<EnvPolicy> | null,
  env: Record<string, string> = {},
  metadata: EnvMetadata | null = null,
) {
  return childEnvironment(
    { env, policy: policy === null ? null : { ...EVERYTHING, ...policy }, metadata },
    SERVER,
  );
}

const names = (variables: Record<string, string>) => Object.keys(variables).sort();

test('uses only the given variables without a policy', () => {
  expect(child(null, { A: '1', '': 'empty', 'A=B': 'odd' })).toEqual({ A: '1', '': 'empty', 'A=B': 'odd' });
  expect(child(null)).toEqual({});
});

describe('inheritance', () => {
  test.each([
    ['none', []],
    ['core', ['HOME', 'LANG', 'PATH', 'TMPDIR', 'path']],
  ] as const)('%s', (inherit, expected) => {
    expect(names(child({ inherit }))).toEqual(expected);
  });

  test('passes all variables except unset ones', () => {
    expect(child({})).toEqual(
      Object.fromEntries(Object.entries(SERVER).filter(([name]) => name !== 'UNSET')),
    );
  });
});

describe('order of the steps', () => {
  test('drops names with KEY, SECRET or TOKEN in any case by default', () => {
    const kept = names(child({ ignoreDefaultExcludes: false }));
    expect(kept).toEqual(['EDITOR', 'EMPTY', 'HOME', 'LANG', 'PATH', 'TMPDIR', 'path']);
    expect(names(child({}))).toContain('API_KEY');
  });

  test.each([
    [['EDITOR'], ['EDITOR']],
    [['editor'], ['EDITOR']],
    [['AT'], []],
    [['PAT'], []],
    [['P*'], ['PATH', 'path']],
    [['*'], Object.keys(SERVER).filter((name) => name !== 'UNSET')],
    [['??????'], ['EDITOR', 'TMPDIR']],
    [['*a*h'], ['PATH', 'path']],
    [
      ['L?NG', 'H**E'],
      ['HOME', 'LANG'],
    ],
    [['[P]ATH', 'P.TH', '^PATH$', 'PATH\\'], []],
    [[''], []],
  ])('exclude %j drops %j', (exclude, dropped) => {
    expect(names(child({ exclude }))).toEqual(names(child({})).filter((name) => !dropped.includes(name)));
  });

  test('applies `set` after both exclusions', () => {
    const set = { MY_TOKEN: '1', EDITOR: 'ed' };
    expect(child({ set, inherit: 'none', ignoreDefaultExcludes: false, exclude: ['*'] })).toEqual(set);
  });

  test('prefers `set` to inherited variables', () => {
    expect(child({ set: { EDITOR: 'ed' } }).EDITOR).toBe('ed');
  });

  test('drops `set` variables that includeOnly does not match', () => {
    expect(child({ set: { MINE: '1', OTHER: '2' }, includeOnly: ['mi*', 'home'] })).toEqual({
      HOME: '/root',
      MINE: '1',
    });
  });

  test('keeps the given variables through every filter', () => {
    const env = { API_KEY: 'given', PATH: '/given', X: '1' };
    const policy = {
      ignoreDefaultExcludes: false,
      exclude: ['*'],
      set: { X: 'set' },
      includeOnly: ['nothing'],
    };
    expect(child(policy, env)).toEqual(env);
  });
});

describe('variables that never reach a child', () => {
  const secrets = [
    'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN',
    'NODE_REPL_AUTH_TOKEN',
    'OPENAI_FEDERATION_RULE_ID',
    'OPENAI_IDENTITY_TOKEN_FILE',
    'OPENAI_WORKLOAD_IDENTITY_CONTEXT',
  ];

  test.each(secrets.flatMap((name) => [name, name.toLowerCase(), name.replace('A', 'a')]))('%s', (name) => {
    expect(child(null, { [name]: 'x', kept: '1' })).toEqual({ kept: '1' });
    expect(child({ inherit: 'none', set: { [name]: 'x' } })).toEqual({});
    const policy = { ...EVERYTHING };
    expect(childEnvironment({ env: {}, policy, metadata: null }, { [name]: 'x', kept: '1' })).toEqual({
      kept: '1',
    });
  });

  test.each(['CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE', 'CODEX_TOOL_CALL_ID'])(
    '%s, but its lower case does',
    (name) => {
      const lower = name.toLowerCase();
      expect(child(null, { [name]: 'x', [lower]: 'y' })).toEqual({ [lower]: 'y' });
    },
  );
});

describe('metadata', () => {
  const env = { CODEX_THREAD_ID: 'given', CODEX_TOOL_CALL_ID: 'given' };
  const uuid = '0123abcd-0000-4000-8000-0123456789ab';

  test.each<[string, EnvMetadata | null, Record<string, string>]>([
    ['none', null, { CODEX_THREAD_ID: 'given' }],
    ['empty', {}, {}],
    ['nulls', { threadId: null, toolCallId: null }, {}],
    ['a thread', { threadId: uuid }, { CODEX_THREAD_ID: uuid }],
    ['a thread in capitals', { threadId: uuid.toUpperCase() }, { CODEX_THREAD_ID: uuid }],
    ['a thread without hyphens', { threadId: uuid.replaceAll('-', '') }, { CODEX_THREAD_ID: uuid }],
    ['a thread as an URN', { threadId: `urn:uuid:${uuid}` }, { CODEX_THREAD_ID: uuid }],
    ['a thread in braces', { threadId: `{${uuid}}` }, { CODEX_THREAD_ID: uuid }],
    ['a tool call', { toolCallId: 'tc-1' }, { CODEX_TOOL_CALL_ID: 'tc-1' }],
    ['an empty tool call', { toolCallId: '' }, { CODEX_TOOL_CALL_ID: '' }],
  ])('%s', (_name, metadata, expected) => {
    expect(child(null, env, metadata)).toEqual(expected);
  });

  test('does not filter metadata', () => {
    const policy = { inherit: 'none', includeOnly: ['nothing'], exclude: ['*'] } as const;
    expect(child(policy, {}, { toolCallId: 't' })).toEqual({ CODEX_TOOL_CALL_ID: 't' });
  });
});

test('treats names of JavaScript properties like any other', () => {
  const hostile = JSON.parse('{"__proto__":"p","constructor":"c","hasOwnProperty":"h"}') as Record<
    string,
    string
  >;
  const variables = child({ inherit: 'none', set: hostile, includeOnly: ['*'] }, { toString: 't' });
  expect(Object.entries(variables).sort()).toEqual([
    ['__proto__', 'p'],
    ['constructor', 'c'],
    ['hasOwnProperty', 'h'],
    ['toString', 't'],
  ]);
  expect(child(null, hostile, { threadId: null })).toEqual(hostile);
});

test('matches a glob exactly like the equivalent regular expression', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '.', '*', '?'), maxLength: 8 });
  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '.'), minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(text, name, (glob, variable) => {
      const pattern = glob.replace(/[.*?]/g, (symbol) => ({ '*': '.*', '?': '.', '.': '\\.' })[symbol]!);
      const matches = new RegExp(`^${pattern}$`, 'i').test(variable);
      const kept = childEnvironment(
        {
          env: {},
          policy: { ...EVERYTHING, inherit: 'none', set: { [variable]: '1' }, includeOnly: [glob] },
          metadata: null,
        },
        {},
      );
      expect(Object.keys(kept)).toEqual(matches ? [variable] : []);
    }),
    { numRuns: 2_000 },
  );
});

describe('expensive patterns', () => {
  const refused = expect.objectContaining({ name: 'ProcessError', code: 'policyTooLarge' });
  const many = (count: number, text: string) =>
    Array.from({ length: count }, (_, index) => `${text}${index}`);

  test('matches many stars in a bounded number of steps', () => {
    const variable = 'a'.repeat(2_000);
    expect(
      child({ inherit: 'none', set: { [variable]: '1' }, includeOnly: ['*a'.repeat(1_000)] }),
    ).not.toEqual({});
    expect(
      child({ inherit: 'none', set: { [variable]: '1' }, includeOnly: [`${'*a'.repeat(1_000)}b`] }),
    ).toEqual({});
  });

  test.each<[string, Partial<EnvPolicy>]>([
    [
      'a long name and a long glob',
      { set: { ['a'.repeat(100_000)]: '1' }, includeOnly: ['*a'.repeat(100_000)] },
    ],
    [
      'many names and many globs',
      {
        set: Object.fromEntries(many(100_000, 'n').map((name) => [name, ''])),
        includeOnly: many(100_000, '*g'),
      },
    ],
    ['many empty globs', { set: { ['a'.repeat(10_000)]: '1' }, includeOnly: Array(100_000).fill('') }],
  ])('rejects %s', (_name, policy) => {
    expect(() => child({ inherit: 'none', ...policy })).toThrow(refused);
  });

  test('bounds globs for exclusion too', () => {
    const variables = Object.fromEntries(many(20_000, 'variable').map((name) => [name, '']));
    const policy = { ...EVERYTHING, exclude: many(20_000, '*x') };
    expect(() => childEnvironment({ env: {}, policy, metadata: null }, variables)).toThrow(refused);
  });

  test('accepts a large environment with a few globs', () => {
    const env = Object.fromEntries(many(20_000, 'N').map((name) => [name, '']));
    expect(names(child({ inherit: 'none', set: env, includeOnly: ['N1*', 'X'] }))).toHaveLength(11_111);
  });
});

test('does not inherit variables of the server process, but passes them when a caller sends them', () => {
  const server = {
    LD_PRELOAD: '/evil.so',
    LD_LIBRARY_PATH: '/lib',
    DYLD_INSERT_LIBRARIES: 'x',
    EXEC_SERVER_CONFIG: '/etc/x.toml',
    LDFLAGS: '-s',
    MY_EXEC_SERVER_URL: 'u',
  };
  const inherited = childEnvironment({ env: {}, policy: EVERYTHING, metadata: null }, server);
  expect(inherited).toEqual({ LDFLAGS: '-s', MY_EXEC_SERVER_URL: 'u' });
  const named = { LD_LIBRARY_PATH: '/mine' };
  const policy = { ...EVERYTHING, set: { EXEC_SERVER_URL: 'ws://x' } };
  expect(childEnvironment({ env: named, policy, metadata: null }, server)).toEqual({
    LDFLAGS: '-s',
    MY_EXEC_SERVER_URL: 'u',
    EXEC_SERVER_URL: 'ws://x',
    LD_LIBRARY_PATH: '/mine',
  });
});
