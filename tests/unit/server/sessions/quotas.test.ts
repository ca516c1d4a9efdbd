import { describe, expect, test } from 'vitest';
import { Quotas, shareDescriptors } from '../../../../src/server/sessions/quotas.ts';

const LIMITS = { maxProcesses: 2, maxFileHandles: 2, descriptors: 100 };

test('limits processes; a slot is released once', () => {
  const quotas = new Quotas(LIMITS);
  const release = quotas.enterProcess();
  quotas.enterProcess();
  const full = expect.objectContaining({
    code: 'tooManyProcesses',
    message: 'the server has 2 running processes, the configured maximum (maxProcesses)',
  });
  expect(() => quotas.enterProcess()).toThrow(full);
  release();
  release();
  quotas.enterProcess();
  expect(() => quotas.enterProcess()).toThrow(full);
});

test('limits file handles', () => {
  const quotas = new Quotas(LIMITS);
  const release = quotas.enterFileHandle();
  quotas.enterFileHandle();
  const full = expect.objectContaining({
    kind: 'refused',
    message: 'the server has 2 open file handles, the configured maximum (maxFileHandles)',
  });
  expect(() => quotas.enterFileHandle()).toThrow(full);
  release();
  quotas.enterFileHandle();
});

test('limits processes and file handles together by the file descriptors', () => {
  const quotas = new Quotas({ maxProcesses: 100, maxFileHandles: 100, descriptors: 7 });
  quotas.enterProcess();
  const release = quotas.enterFileHandle();
  quotas.enterFileHandle();
  expect(() => quotas.enterProcess()).toThrow('1 running processes and 2 open file handles');
  release();
  quotas.enterProcess();
  expect(() => quotas.enterFileHandle()).toThrow('RLIMIT_NOFILE');
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
