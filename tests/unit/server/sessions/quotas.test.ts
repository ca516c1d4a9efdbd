import { describe, expect, test } from 'vitest';
import type { ChildIo } from '../../../../src/process/spawn/spawner.ts';
import { descriptorsOfStart, Quotas, shareDescriptors } from '../../../../src/server/sessions/quotas.ts';
import { INPUT, NO_INPUT, TERMINAL } from '../../../support/children.ts';

const LIMITS = { maxProcesses: 2, maxFileHandles: 2, descriptors: 100 };

const [one, two] = [{}, {}];

test('limits processes; a slot is released once', () => {
  const quotas = new Quotas(LIMITS);
  const release = quotas.enterProcess(one, 3);
  quotas.enterProcess(one, 3);
  const full = expect.objectContaining({
    code: 'tooManyProcesses',
    message: 'the server has 2 running processes, the configured maximum (maxProcesses)',
  });
  expect(() => quotas.enterProcess(one, 3)).toThrow(full);
  release();
  release();
  quotas.enterProcess(one, 3);
  expect(() => quotas.enterProcess(one, 3)).toThrow(full);
});

test('limits file handles', () => {
  const quotas = new Quotas(LIMITS);
  const release = quotas.enterFileHandle(one);
  quotas.enterFileHandle(one);
  const full = expect.objectContaining({
    kind: 'refused',
    message: 'the server has 2 open file handles, the configured maximum (maxFileHandles)',
  });
  expect(() => quotas.enterFileHandle(one)).toThrow(full);
  release();
  quotas.enterFileHandle(one);
});

test('gives each session a share of the file descriptors', () => {
  const quotas = new Quotas({ maxProcesses: 100, maxFileHandles: 100, descriptors: 12 });
  quotas.enterProcess(one, 3);
  const release = quotas.enterFileHandle(one);
  quotas.enterHttpRequest(one);
  const refusal = expect.objectContaining({
    code: 'tooManyProcesses',
    message:
      'the server has 7 of 12 file descriptors for programs and files (RLIMIT_NOFILE) left; this session has 5 of its share of 6 (half of what other sessions leave) and needs 2 more',
  });
  expect(() => quotas.enterProcess(one, 2)).toThrow(refusal);
  quotas.enterProcess(two, 3);
  release();
  quotas.enterFileHandle(one);
  expect(() => quotas.enterHttpRequest(one)).toThrow(expect.objectContaining({ kind: 'limit' }));
  expect(() => quotas.enterFileHandle(one)).toThrow(expect.objectContaining({ kind: 'refused' }));
});

test.each<[ChildIo, Partial<Parameters<typeof descriptorsOfStart>[1]>, number]>([
  [INPUT, {}, 3],
  [NO_INPUT, {}, 2],
  [TERMINAL, {}, 2],
  [NO_INPUT, { sandbox: true }, 6],
  [TERMINAL, { sandbox: true, network: true }, 10],
  [NO_INPUT, { sandbox: true, loginShell: true }, 12],
])('counts the descriptors of a start: %j %j', (io, uses, expected) => {
  const all = { sandbox: false, network: false, loginShell: false, ...uses };
  expect(descriptorsOfStart(io, all)).toBe(expected);
});

describe('shareDescriptors', () => {
  test.each([
    [null, 1024, { connections: 1024, sockets: 1152, work: Number.POSITIVE_INFINITY }],
    [1_048_576, 1024, { connections: 1024, sockets: 1152, work: 1_047_384 }],
    [1024, 1024, { connections: 369, sockets: 492, work: 492 }],
    [1024, 100, { connections: 100, sockets: 228, work: 756 }],
    [64, 1024, { connections: 9, sockets: 12, work: 12 }],
    [20, 1024, { connections: 1, sockets: 3, work: 3 }],
  ])('divides %s descriptors for %i configured connections', (limit, wanted, shares) => {
    expect(shareDescriptors(limit, wanted)).toEqual(shares);
  });

  test.each([null, 64, 256, 1024, 4096, 1_000_000])('never exceeds a limit of %s', (limit) => {
    for (const wanted of [1, 10, 1024, 100_000]) {
      const { connections, sockets, work } = shareDescriptors(limit, wanted);
      expect(connections).toBeLessThanOrEqual(wanted);
      expect(sockets).toBeGreaterThan(connections);
      expect(sockets + work).toBeLessThanOrEqual(limit ?? Number.POSITIVE_INFINITY);
    }
  });
});
