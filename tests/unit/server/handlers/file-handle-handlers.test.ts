import { expect, test } from 'vitest';
import { FileHandles } from '../../../../src/files/file-handles.ts';
import type { OpenFile } from '../../../../src/files/file-system.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { PathOrder } from '../../../../src/files/path-order.ts';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { fileHandleHandlers } from '../../../../src/server/handlers/file-handle-handlers.ts';
import type { HandlerServices } from '../../../../src/server/handlers/services.ts';

const FILE: OpenFile = {
  read: async () => Buffer.from('x'),
  write: async () => {},
  close: async () => {},
  discard: async () => {},
};

function createHandlers() {
  const order = new PathOrder();
  const files = {
    order,
    handles: new FileHandles(),
    under: () => ({ open: async () => FILE }),
    blocks: { give: () => {} },
  };
  const handlers = fileHandleHandlers({ files, config: DEFAULT_CONFIG } as unknown as HandlerServices);
  let parked = 0;
  const signal = new AbortController().signal;
  const maxResultBytes = () => Number.POSITIVE_INFINITY;
  const context = { signal, trace: null, bulk: null, maxResultBytes, park: () => parked++ };
  return { order, handlers, context, parked: () => parked };
}

test('an operation that waits for a change of the same path gives up its slot, others do not', async () => {
  const { order, handlers, context, parked } = createHandlers();
  const open = { handleId: 'h', path: 'file:///f', mode: 'replace' } as const;
  await handlers['fs/open'](open, context);
  await handlers['fs/writeBlock']({ handleId: 'h', offset: 0, chunk: 'eA==' }, context);
  await handlers['fs/readBlock']({ handleId: 'h', offset: 0, len: 1 }, context);
  expect(parked()).toBe(0);
  const change = order.claim([nativePathOfText('/f')], 'write');
  const waiting = [
    handlers['fs/readBlock']({ handleId: 'h', offset: 0, len: 1 }, context),
    handlers['fs/writeBlock']({ handleId: 'h', offset: 0, chunk: 'eA==' }, context),
    handlers['fs/close']({ handleId: 'h' }, context),
    handlers['fs/open'](open, context),
  ];
  expect(parked()).toBe(4);
  change.release();
  await Promise.all(waiting);
});
