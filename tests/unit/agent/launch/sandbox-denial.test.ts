import { expect, test } from 'vitest';
import { isSandboxDenial } from '../../../../src/agent/launch/sandbox-denial.ts';

test.each([
  ['the executor says so', { sandboxed: false, exitCode: 0, reported: true, output: '' }, true],
  [
    'a forbidden call',
    { sandboxed: true, exitCode: 1, reported: false, output: 'touch: Permission denied' },
    true,
  ],
  ['a killed call', { sandboxed: true, exitCode: 159, reported: false, output: '' }, true],
  ['no sandbox', { sandboxed: false, exitCode: 1, reported: false, output: 'Permission denied' }, false],
  ['success', { sandboxed: true, exitCode: 0, reported: false, output: 'Permission denied' }, false],
  ['an ordinary failure', { sandboxed: true, exitCode: 1, reported: false, output: 'no luck' }, false],
  ['no such program', { sandboxed: true, exitCode: 127, reported: false, output: 'not found' }, false],
  ['an unknown end', { sandboxed: true, exitCode: null, reported: false, output: 'sandbox' }, false],
])('%s', (_, program, denied) => {
  expect(isSandboxDenial(program)).toBe(denied);
});
