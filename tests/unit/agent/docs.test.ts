import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as entry from '../../../src/agent/index.ts';

const PAGE = readFileSync(new URL('../../../docs/guides/agent-tools.md', import.meta.url), 'utf8');

test('the page mentions every export', () => {
  const names = [
    'AgentExec',
    'DEFAULT_ENV_POLICY',
    'EXEC_COMMAND_TOOL',
    'ExecToolError',
    'FIXED_ENVIRONMENT',
    'StdioProgram',
    'StdioProgramError',
    'WRITE_STDIN_TOOL',
    'environmentTarget',
    'execCommandTool',
    'writeStdinTool',
  ];
  expect(Object.keys(entry).sort()).toEqual(names);
  for (const name of names) expect(PAGE).toMatch(new RegExp(`\\b${name}\\b`));
});

test('the page explains every kind of error, event and hook', () => {
  const kinds: entry.ExecErrorKind[] = [
    ...([
      'invalidArguments',
      'declined',
      'invalidPolicy',
      'unknownSession',
      'stdinClosed',
      'launchFailed',
    ] as const),
    ...(['writeFailed', 'processFailed', 'aborted', 'overloaded', 'closed'] as const),
  ];
  const events = [
    'begin',
    'outputDelta',
    'terminalInteraction',
    'networkDecision',
    'end',
  ] satisfies entry.ExecEvent['type'][];
  const hooks = [
    'approve',
    'chooseSandbox',
    'chooseNetwork',
    'approveHost',
    'onDenied',
  ] satisfies (keyof entry.ExecPolicy)[];
  for (const name of [...kinds, ...events, ...hooks]) expect(PAGE).toMatch(new RegExp(`\`${name}\\b`));
});
