import { expect, test } from 'vitest';
import { statusOfTab } from '../../../console/src/views/processes/process-status.ts';
import type { ProcessInfo } from '../../../src/client/browser.ts';

const running = { state: 'running', exitCode: null, signal: null, reason: null } as ProcessInfo;

test('a process that the server has lost is not shown as running', () => {
  expect(statusOfTab(running, false).text).toBe('Running');
  expect(statusOfTab(running, true)).toMatchObject({ kind: 'done', text: 'Gone' });
});

test('a process whose end was seen keeps its exit code after the server has removed it', () => {
  expect(statusOfTab({ ...running, state: 'closed', exitCode: 3 }, true).text).toBe('Exit 3');
});
