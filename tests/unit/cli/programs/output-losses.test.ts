import { expect, test } from 'vitest';
import { resultOf } from '../../../../src/cli/programs/endings.ts';
import { OutputLosses } from '../../../../src/cli/programs/output-losses.ts';

const lost = (fromSeq: number, toSeq: number, bytes: number | null) =>
  ({ type: 'lost', fromSeq, toSeq, bytes, streamBytes: null }) as const;

test('counts what was lost after the command began', () => {
  const losses = new OutputLosses(10);
  losses.add(lost(1, 9, 500));
  expect(losses.text).toBe(null);
  losses.add(lost(12, 14, 30));
  losses.add(lost(20, 21, 4));
  expect(losses.text).toBe('34 bytes of its output are lost');
  losses.add(lost(30, 31, null));
  expect(losses.text).toBe('some bytes of its output are lost');
});

test('lost output ends a command with 125, and the text has the exit code of the program', () => {
  const losses = new OutputLosses();
  const circumstances = {
    place: { target: { name: 'local', address: 'local' }, tokenFile: null },
    ...{ ref: 'x', outlives: false, timeout: '1s', isOnTerminal: false, json: true, failure: null, losses },
  };
  const result = (reason: string | null) =>
    resultOf({ type: 'exited', exit: { exitCode: 7, reason, sandboxDenied: false } }, circumstances);
  expect(result(null)).toEqual({ text: '', exitCode: 7 });
  losses.add(lost(1, 2, 5));
  const { exitCode, details } = result(null);
  expect(exitCode).toBe(125);
  expect(JSON.parse(details!)).toEqual({
    code: 'outputLost',
    message: 'the program has exited with 7, and 5 bytes of its output are lost',
    hint: 'with --retained-output-bytes-per-process a server keeps more',
  });
  expect(result('timeout')).toMatchObject({ exitCode: 125, details: expect.stringContaining('(--timeout)') });
});
