import { expect, test } from 'vitest';
import { systemError } from '../../../../src/files/errors.ts';
import type { Handlers, RequestContext } from '../../../../src/rpc/router.ts';
import type { ConnectionAuditTrail, FileChange } from '../../../../src/server/records/audit-trail.ts';
import { auditedHandlers } from '../../../../src/server/records/audited-handlers.ts';

const CONTEXT = { bulk: null } as unknown as RequestContext;
const EBADF = 9;
const OPEN = { handleId: 'h', path: 'file:///f', mode: 'replace' } as const;
const WRITE = { handleId: 'h', offset: 0, chunk: 'MTIzNA==' };
const READ = { handleId: 'h', offset: 0, len: 1 };
const CLOSE = { handleId: 'h' };

/** Handlers with the behaviour that a test sets, and the recorded changes. Recording takes time, as on a disk. */
function audited(handlers: { readonly [M in keyof Handlers]?: () => unknown } = {}) {
  const changes: FileChange[] = [];
  const trail = {
    requireWritable: () => {},
    fileChange: async (change: FileChange) => {
      await new Promise(setImmediate);
      changes.push(change);
    },
  } as unknown as ConnectionAuditTrail;
  const done = async () => ({});
  const methods = ['fs/open', 'fs/writeBlock', 'fs/readBlock', 'fs/close'] as const;
  const all = Object.fromEntries(methods.map((method) => [method, handlers[method] ?? done]));
  const recorded = () => changes.map(({ method, bytes, outcome }) => [method, bytes, outcome]);
  return { handlers: auditedHandlers(all as unknown as Handlers, trail), recorded };
}

test('counts blocks that are pipelined behind the open', async () => {
  const { handlers, recorded } = audited();
  const opened = handlers['fs/open'](OPEN, CONTEXT);
  await null;
  await Promise.all([opened, handlers['fs/writeBlock'](WRITE, CONTEXT)]);
  await handlers['fs/close'](CLOSE, CONTEXT);
  expect(recorded()).toEqual([
    ['fs/open', null, 'done'],
    ['fs/close', 4, 'done'],
  ]);
});

test('records a close that fails and forgets the handle', async () => {
  const fail = () => Promise.reject(new Error('no'));
  const { handlers, recorded } = audited({ 'fs/close': fail });
  await handlers['fs/open'](OPEN, CONTEXT);
  await handlers['fs/writeBlock'](WRITE, CONTEXT);
  for (let attempt = 0; attempt < 2; attempt++) {
    await expect(handlers['fs/close'](CLOSE, CONTEXT)).rejects.toThrow('no');
  }
  expect(recorded()).toEqual([
    ['fs/open', null, 'done'],
    ['fs/close', 4, 'failed'],
  ]);
});

test('records the end of a handle that a failed read closes', async () => {
  const { handlers, recorded } = audited({ 'fs/readBlock': () => Promise.reject(systemError(EBADF)) });
  await handlers['fs/open'](OPEN, CONTEXT);
  await handlers['fs/writeBlock'](WRITE, CONTEXT);
  await expect(handlers['fs/readBlock'](READ, CONTEXT)).rejects.toThrow();
  await handlers['fs/close'](CLOSE, CONTEXT);
  expect(recorded()).toEqual([
    ['fs/open', null, 'done'],
    ['fs/close', 4, 'failed'],
  ]);
});
