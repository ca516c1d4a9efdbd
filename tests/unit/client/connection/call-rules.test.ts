import { expect, test } from 'vitest';
import { rulesOf } from '../../../../src/client/connection/call-rules.ts';
import { METHODS, type Method } from '../../../../src/protocol/registry.ts';

const methods = Object.keys(METHODS) as Method[];

test('only calls whose repetition has no further effect are retryable', () => {
  expect(methods.filter((method) => rulesOf(method, {}).retryable).sort()).toEqual([
    'capabilities/discoverV2',
    'capabilityRoots/discoverV1',
    'environment/info',
    'environment/status',
    'environmentConfig/read',
    'fs/canonicalize',
    'fs/getMetadata',
    'fs/hash',
    'fs/list',
    'fs/readDirectory',
    'fs/readFile',
    'fs/search',
    'fs/walk',
    'process/detach',
    'process/list',
    'process/read',
    'process/screen',
    'process/snapshot',
    'process/wait',
    'recordings/list',
    'recordings/read',
  ]);
});

test('a write is retryable only with a writeId', () => {
  expect(rulesOf('process/write', { writeId: '1' }).retryable).toBe(true);
  for (const params of [{}, { writeId: null }, null, undefined]) {
    expect(rulesOf('process/write', params).retryable).toBe(false);
  }
  expect(rulesOf('fs/remove', { writeId: '1' }).retryable).toBe(false);
});

test('calls that end something, or let a program continue, use the reserved slot', () => {
  expect(methods.filter((method) => rulesOf(method, {}).cleanup).sort()).toEqual([
    'command/exec/terminate',
    'fs/close',
    'fs/unwatch',
    'http/cancel',
    'ports/unwatch',
    'process/consumed',
    'process/detach',
    'process/terminate',
    'tcp/close',
  ]);
});

test('calls about the environment have timeouts, and only environment/status fails fast', () => {
  expect(methods.filter((method) => rulesOf(method, {}).timeoutMs !== undefined)).toEqual([
    'environment/info',
    'environment/status',
  ]);
  expect(methods.filter((method) => rulesOf(method, {}).failFast)).toEqual(['environment/status']);
});
