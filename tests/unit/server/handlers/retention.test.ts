import { expect, test } from 'vitest';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { heldOutputBytes, retentionOf } from '../../../../src/server/handlers/retention.ts';

test('clients that get output as bytes get larger chunks than clients that get text', () => {
  expect(retentionOf(DEFAULT_CONFIG).maxChunkBytes).toBe(64 * 1024);
  expect(retentionOf(DEFAULT_CONFIG, null, true).maxChunkBytes).toBe(128 * 1024);
});

test('a chunk is never larger than a response of process/read may be', () => {
  const config = { ...DEFAULT_CONFIG, maxResponseBytes: 20_000 };
  const { maxChunkBytes } = retentionOf(config, null, true);
  expect(maxChunkBytes).toBeLessThan(20_000);
  expect(maxChunkBytes).toBe(retentionOf(config).maxChunkBytes);
});

test('one read more than the held output is still retained', () => {
  const retention = retentionOf(DEFAULT_CONFIG, null, true);
  expect(heldOutputBytes(retention)).toBe(retention.tailBytes - 128 * 1024);
});
