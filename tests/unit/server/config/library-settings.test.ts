import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { wait } from '../../../../src/client/process/run.ts';
import { LocalEnvironment } from '../../../../src/environment/local-environment.ts';
import { StartError } from '../../../../src/listener/start-error.ts';
import {
  CONFIG_OPTIONS,
  type ConfigOption,
  DEFAULT_CONFIG,
  type ExecServerConfig,
  type ServerSettings,
} from '../../../../src/server/config/config.ts';
import { ConfigError, configOf } from '../../../../src/server/config/resolve.ts';
import { ExecServer } from '../../../../src/server/exec-server.ts';
import { createInMemoryServer } from '../../../../src/server/in-memory.ts';
import { runServer, serve, serveStdio } from '../../../../src/server/serve.ts';

/** Every way to pass settings to the library. None of them starts anything with an invalid setting. */
const ENTRIES: Readonly<Record<string, (settings: ServerSettings) => unknown>> = {
  runServer,
  serve: (settings) => serve({ ...DEFAULT_CONFIG, ...settings } as ExecServerConfig),
  serveStdio: (settings) =>
    serveStdio({ ...DEFAULT_CONFIG, ...settings } as ExecServerConfig, new PassThrough(), new PassThrough()),
  ExecServer: (settings) => new ExecServer(settings),
  createInMemoryServer: (settings) => createInMemoryServer(settings),
  LocalEnvironment: (settings) => new LocalEnvironment({}, settings),
};

/** Values of a wrong kind, and how a message names them. */
const WRONG_KINDS: readonly (readonly [unknown, string])[] = [
  [null, 'null'],
  [[], 'an array'],
  [{}, 'an object'],
  [() => {}, 'a function'],
  [Symbol('x'), 'a symbol'],
  [7n, 'the bigint 7'],
];

/** Values that are invalid for one type of setting, and what a message says about them. */
function wrongValues(option: ConfigOption): (readonly [unknown, string])[] {
  switch (option.type) {
    case 'string':
      return [
        [4, 'the number 4 is not a string'],
        [true, 'the boolean true is not a string'],
      ];
    case 'boolean':
      return [
        ['yes', "'yes' is not true or false"],
        [1, 'the number 1 is not true or false'],
      ];
    case 'enum':
      return [
        ['bogus', "'bogus' is not one of the choices"],
        [1, 'the number 1 is not one of the choices'],
      ];
    default: {
      const { min, max } = option;
      const numbers: (readonly [unknown, string])[] = [
        [min - 1, `the number ${min - 1} is below `],
        [max + 1, `the number ${max + 1} is above `],
        [min + 0.5, `the number ${min + 0.5} is not a whole number`],
        [Number.NaN, 'the number NaN is not a whole number'],
        [Number.NEGATIVE_INFINITY, 'the number -Infinity is not a whole number'],
        ['x', "'x' is not a "],
        ['', "'' is not a "],
        [true, 'the boolean true is not a '],
      ];
      if ('none' in option && option.none) return numbers;
      return [
        ...numbers,
        ['none', "'none' is not a "],
        [Number.POSITIVE_INFINITY, 'the number Infinity is not a whole number'],
      ];
    }
  }
}

const errorOf = async (attempt: () => unknown): Promise<unknown> => {
  try {
    return await attempt();
  } catch (error) {
    return error;
  }
};

test.each(CONFIG_OPTIONS.map((option) => [option.key, option] as const))('checks %s', async (key, option) => {
  const kinds = WRONG_KINDS.map(([value, shown]) => [value, `${shown} is not `] as const);
  for (const [value, problem] of [...kinds, ...wrongValues(option)]) {
    for (const [name, enter] of Object.entries(ENTRIES)) {
      const error = await errorOf(() => enter({ [key]: value } as ServerSettings));
      expect(error, name).toBeInstanceOf(ConfigError);
      expect(error, name).toBeInstanceOf(StartError);
      expect(error, name).toMatchObject({ key, source: { source: 'program' } });
      const { message } = error as ConfigError;
      expect(message.startsWith(`${key}: ${problem}`), `${name}: ${message}`).toBe(true);
      expect(message, name).toContain('; allowed: ');
    }
  }
});

test.each(Object.entries(ENTRIES))('%s rejects a name that is not a setting', async (_name, enter) => {
  const errors = await Promise.all(
    [{ lisen: 'off' }, { bogus: undefined }, JSON.parse('{"__proto__": 1}')].map((settings) =>
      errorOf(() => enter(settings)),
    ),
  );
  const message = (error: unknown) => (error instanceof ConfigError ? error.message : error);
  expect(errors.map(message).slice(0, 2)).toEqual([
    "unknown setting 'lisen'; did you mean 'listen'?",
    "unknown setting 'bogus'; 'exec-server config' lists the valid ones",
  ]);
});

test.each([[null], ['off'], [[]], [4]])('rejects %j instead of an object', async (settings) => {
  for (const name of ['runServer', 'ExecServer', 'createInMemoryServer', 'LocalEnvironment']) {
    const error = await errorOf(() => ENTRIES[name]!(settings as ServerSettings));
    expect(error, name).toBeInstanceOf(ConfigError);
    expect(error, name).toMatchObject({
      message: expect.stringMatching(/^the settings of a server are .*; pass an object$/),
    });
  }
});

test('reads numbers, text with units and no limit; undefined is the default', () => {
  const config = configOf({
    maxProcessWallMs: '5m',
    maxProcessIdleMs: 1_500,
    maxProcessMemoryBytes: '64MiB',
    maxProcesses: 7,
    detachedSessionTtlMs: 'none',
    metrics: true,
    logLevel: undefined,
  });
  expect(config).toEqual({
    ...DEFAULT_CONFIG,
    maxProcessWallMs: 300_000,
    maxProcessIdleMs: 1_500,
    maxProcessMemoryBytes: 64 * 1024 * 1024,
    maxProcesses: 7,
    detachedSessionTtlMs: Number.POSITIVE_INFINITY,
    metrics: true,
  });
  expect(configOf(config)).toEqual(config);
});

test('accepts the bounds of every number', () => {
  // The ping interval must stay below the timeout.
  const ping = { pingIntervalMs: 10, peerSilenceTimeoutMs: '168h' } as const;
  for (const option of CONFIG_OPTIONS) {
    if (!('min' in option) || Object.hasOwn(ping, option.key)) continue;
    for (const bound of [option.min, option.max]) {
      const settings = { ...ping, maxMessageBytes: 1024, [option.key]: bound };
      expect(configOf(settings)[option.key], option.key).toBe(bound);
    }
  }
});

test('rejects settings that contradict each other', async () => {
  await expect(runServer({ pingIntervalMs: '10m' })).rejects.toThrow(
    "peerSilenceTimeoutMs (default): '5m' must be longer than pingIntervalMs: '10m'; otherwise idle peers are dropped",
  );
});

test('raises the limit of unfinished messages to the largest message', () => {
  expect(configOf({ maxMessageBytes: '128MiB', maxUnfinishedBytes: '1MiB' }).maxUnfinishedBytes).toBe(
    128 * 1024 ** 2,
  );
});

test('applies text with units to the programs of a local environment', async () => {
  const environment = new LocalEnvironment(
    {},
    { maxProcessWallMs: '50ms', retainedOutputBytesPerProcess: '16KiB' },
  );
  onTestFinished(() => environment.dispose());
  // Without the limit the program would wait for input until the test times out.
  const process = await environment.backend.start({
    processId: 'p',
    argv: ['/bin/sh', '-c', 'read line'],
    cwd: 'file:///',
    env: {},
    tty: false,
    pipeStdin: true,
  });
  expect((await wait(process)).exitCode).not.toBe(0);
});
