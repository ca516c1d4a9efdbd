import { expect, test } from 'vitest';
import { CONFIG_OPTIONS, DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { SETTING_GROUPS } from '../../../../src/server/config/setting.ts';
import {
  describeAllowed,
  formatConfigValue,
  parseConfigValue,
  quoteValue,
} from '../../../../src/server/config/values.ts';

const option = (key: string) => CONFIG_OPTIONS.find((candidate) => candidate.key === key)!;

test('the defaults have every key of the table, in its order', () => {
  expect(CONFIG_OPTIONS.map(({ key }) => key)).toEqual(Object.keys(DEFAULT_CONFIG));
});

test.each([
  ['listen', '--listen', 'EXEC_SERVER_LISTEN'],
  ['detachedSessionTtlMs', '--detached-session-ttl', 'EXEC_SERVER_DETACHED_SESSION_TTL_MS'],
  ['maxMessageBytes', '--max-message-bytes', 'EXEC_SERVER_MAX_MESSAGE_BYTES'],
  ['maxJsonDepth', '--max-json-depth', 'EXEC_SERVER_MAX_JSON_DEPTH'],
])('%s has the flag %s and the variable %s', (key, flag, env) => {
  expect(option(key)).toMatchObject({ flag, env });
});

test("the reference's times and limits are the defaults", () => {
  expect(DEFAULT_CONFIG).toMatchObject({
    listen: 'ws://127.0.0.1:0',
    detachedSessionTtlMs: 30_000,
    closedProcessRetentionMs: 30_000,
    retainedOutputBytesPerProcess: 1_048_576,
    retainedChunksPerProcess: 50_000,
    maxMessageBytes: 67_108_864,
  });
});

test('flags and variables are unique, and every group has settings', () => {
  expect(new Set(CONFIG_OPTIONS.map(({ flag }) => flag)).size).toBe(CONFIG_OPTIONS.length);
  expect(new Set(CONFIG_OPTIONS.map(({ env }) => env)).size).toBe(CONFIG_OPTIONS.length);
  expect(new Set(CONFIG_OPTIONS.map(({ group }) => group))).toEqual(new Set(SETTING_GROUPS));
});

test.each(CONFIG_OPTIONS)('the default of $key is valid and survives formatting', (entry) => {
  const value = DEFAULT_CONFIG[entry.key];
  expect(parseConfigValue(entry, value)).toBe(value);
  expect(parseConfigValue(entry, formatConfigValue(entry, value))).toBe(value);
  expect(describeAllowed(entry)).not.toBe('');
});

test.each(CONFIG_OPTIONS.filter((entry) => 'min' in entry))('enforces the bounds of $key', (entry) => {
  const { min, max } = entry as { min: number; max: number };
  for (const edge of [min, max, String(min), formatConfigValue(entry, max)]) {
    expect(() => parseConfigValue(entry, edge)).not.toThrow();
  }
  expect(() => parseConfigValue(entry, min - 1)).toThrow(`is below ${formatConfigValue(entry, min)}`);
  expect(() => parseConfigValue(entry, String(max + 1))).toThrow(`is above ${formatConfigValue(entry, max)}`);
});

test.each([
  ['pingIntervalMs', '250', 250],
  ['pingIntervalMs', 250, 250],
  ['pingIntervalMs', '250ms', 250],
  ['pingIntervalMs', '30s', 30_000],
  ['pingIntervalMs', '5m', 300_000],
  ['pingIntervalMs', '2h', 7_200_000],
  ['maxMessageBytes', '2048', 2048],
  ['maxMessageBytes', '64KiB', 65_536],
  ['maxMessageBytes', '16MiB', 16_777_216],
  ['retainedOutputBytesPerProcess', '1GiB', 1_073_741_824],
  ['concurrentRequests', '7', 7],
  ['nativeSpawn', 'false', false],
  ['nativeSpawn', '0', false],
  ['nativeSpawn', '1', true],
  ['nativeSpawn', true, true],
  ['logLevel', 'debug', 'debug'],
  ['listen', '', ''],
])('%s parses %j', (key, raw, value) => {
  expect(parseConfigValue(option(key), raw)).toBe(value);
});

test.each([
  [
    'concurrentRequests',
    ['x', '', ' 1', '1.5', 1.5, '1e3', '0x10', '5s', '1_000', true, null, Number.NaN, {}, [1]],
  ],
  ['pingIntervalMs', ['5', '1d', '30S', '1.5s', '30 s', 's', '-1s', '169h', 'constructor', '9'.repeat(400)]],
  ['maxMessageBytes', ['64KB', '64kib', '1TiB', '0.5MiB', '16M', 'MiB', '-1KiB']],
  ['nativeSpawn', ['yes', '', 'TRUE', 1, null]],
  ['logLevel', ['trace', 'WARN', '', 1]],
  ['listen', [1, true, {}]],
])('%s rejects %j', (key, raws) => {
  for (const raw of raws) expect(() => parseConfigValue(option(key), raw), String(raw)).toThrow(/^is /);
});

test.each([
  [0, '0'],
  [1, '1ms'],
  [1_500, '1500ms'],
  [90_000, '90s'],
  [120_000, '2m'],
  [7_200_000, '2h'],
])('formats a duration of %d as %s', (value, text) => {
  expect(formatConfigValue(option('pingIntervalMs'), value)).toBe(text);
});

test.each([
  ['a\nb\u001b[31m', "'a\\u000ab\\u001b[31m'"],
  ['x'.repeat(100), `'${'x'.repeat(80)}…'`],
  [5, 'the number 5'],
  [true, 'the boolean true'],
  [null, 'null'],
  [undefined, 'undefined'],
  [{}, 'an object'],
  [[], 'an array'],
  [() => {}, 'a function'],
])('quotes %j on one line', (raw, quoted) => {
  expect(quoteValue(raw)).toBe(quoted);
});
