import { expect, test } from 'vitest';
import { Quotas } from '../../../../src/server/sessions/quotas.ts';

const LIMITS = { maxProcesses: 2, maxFileHandles: 2, descriptors: 100 };

test('processes are counted, and one that leaves makes room once', () => {
  const quotas = new Quotas(LIMITS);
  const leave = quotas.enterProcess();
  quotas.enterProcess();
  const full = expect.objectContaining({
    code: 'tooManyProcesses',
    message: 'the server has 2 running processes, the configured maximum (maxProcesses)',
  });
  expect(() => quotas.enterProcess()).toThrow(full);
  leave();
  leave();
  quotas.enterProcess();
  expect(() => quotas.enterProcess()).toThrow(full);
});

test('file handles are counted', () => {
  const quotas = new Quotas(LIMITS);
  const leave = quotas.enterFileHandle();
  quotas.enterFileHandle();
  const full = expect.objectContaining({
    kind: 'refused',
    message: 'the server has 2 open file handles, the configured maximum (maxFileHandles)',
  });
  expect(() => quotas.enterFileHandle()).toThrow(full);
  leave();
  quotas.enterFileHandle();
});

test('both share the descriptors that the system allows', () => {
  const quotas = new Quotas({ maxProcesses: 100, maxFileHandles: 100, descriptors: 7 });
  quotas.enterProcess();
  const leave = quotas.enterFileHandle();
  quotas.enterFileHandle();
  expect(() => quotas.enterProcess()).toThrow('1 running processes and 2 open file handles');
  leave();
  quotas.enterProcess();
  expect(() => quotas.enterFileHandle()).toThrow('RLIMIT_NOFILE');
});
