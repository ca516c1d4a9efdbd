import { describe, expect, test } from 'vitest';
import type { ChildIo } from '../../../../src/process/spawn/spawner.ts';
import { descriptorsOfProgram, Quotas, shareDescriptors } from '../../../../src/server/sessions/quotas.ts';
import { INPUT, NO_INPUT, TERMINAL } from '../../../support/children.ts';

const LIMITS = { maxProcesses: 2, maxFileHandles: 2, descriptors: 100 };

const [one, two] = [{}, {}];

test('limits processes; a slot is released once', () => {
  const quotas = new Quotas(LIMITS);
  const { release } = quotas.enterProcess(one, { start: 3, running: 3 });
  quotas.enterProcess(one, { start: 3, running: 3 });
  const full = expect.objectContaining({
    code: 'tooManyProcesses',
    message: 'the server has 2 running processes, the configured maximum (maxProcesses)',
  });
  expect(() => quotas.enterProcess(one, { start: 3, running: 3 })).toThrow(full);
  release();
  release();
  quotas.enterProcess(one, { start: 3, running: 3 });
  expect(() => quotas.enterProcess(one, { start: 3, running: 3 })).toThrow(full);
});

test('counts what only the start of a process needs until it has started', () => {
  const quotas = new Quotas({ maxProcesses: 100, maxFileHandles: 1, descriptors: 16 });
  const needs = { start: 6, running: 2 };
  const first = quotas.enterProcess(one, needs);
  quotas.enterProcess(one, needs);
  expect(() => quotas.enterProcess(one, needs)).toThrow(/12 of its share of 12 .* needs 6 more/);
  expect(quotas.descriptors.heldBy(one)).toBe(12);
  first.started();
  first.started();
  expect(quotas.descriptors.heldBy(one)).toBe(8);
  first.release();
  expect(quotas.descriptors.heldBy(one)).toBe(6);
});

test('counts a process for another owner, if its share allows that', () => {
  const quotas = new Quotas({ maxProcesses: 100, maxFileHandles: 1, descriptors: 16 });
  const needs = { start: 6, running: 5 };
  const process = quotas.enterProcess(one, needs);
  process.started();
  process.transfer(two);
  expect([one, two].map((owner) => quotas.descriptors.heldBy(owner))).toEqual([0, 5]);
  const another = quotas.enterProcess(one, needs);
  expect(() => another.transfer(two)).toThrow(/needs 5 more/);
  expect(quotas.descriptors.heldBy(one)).toBe(6);
  process.release();
  another.transfer(two);
  another.release();
  expect(quotas.descriptors.free).toBe(16);
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
  const quotas = new Quotas({ maxProcesses: 100, maxFileHandles: 100, descriptors: 8 });
  quotas.enterProcess(one, { start: 3, running: 3 });
  const release = quotas.enterFileHandle(one);
  quotas.enterSocket(one);
  const refusal = expect.objectContaining({
    code: 'tooManyProcesses',
    message:
      'the server has 3 of 8 file descriptors for programs and files (RLIMIT_NOFILE) left; this session has 5 of its share of 6 (three quarters of what other sessions leave) and needs 2 more',
  });
  expect(() => quotas.enterProcess(one, { start: 2, running: 2 })).toThrow(refusal);
  quotas.enterProcess(two, { start: 2, running: 2 });
  release();
  quotas.enterFileHandle(one);
  expect(() => quotas.enterSocket(one)).toThrow(expect.objectContaining({ kind: 'limit' }));
  expect(() => quotas.enterFileHandle(one)).toThrow(expect.objectContaining({ kind: 'refused' }));
});

test.each<[ChildIo, Partial<Parameters<typeof descriptorsOfProgram>[1]>, number, number]>([
  [INPUT, {}, 3, 3],
  [NO_INPUT, {}, 2, 2],
  [TERMINAL, {}, 2, 2],
  [NO_INPUT, { sandbox: true }, 6, 2],
  [TERMINAL, { sandbox: true, network: true }, 10, 6],
  [NO_INPUT, { sandbox: true, loginShell: true }, 12, 2],
])('counts the descriptors of a program: %j %j', (io, uses, start, running) => {
  const all = { sandbox: false, network: false, loginShell: false, ...uses };
  expect(descriptorsOfProgram(io, all)).toEqual({ start, running });
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
