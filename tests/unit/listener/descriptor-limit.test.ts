import { expect, test } from 'vitest';
import { descriptorLimit } from '../../../src/listener/descriptor-limit.ts';

test('reads the descriptor limit of this process', () => {
  expect(descriptorLimit()).toBeGreaterThan(0);
});
