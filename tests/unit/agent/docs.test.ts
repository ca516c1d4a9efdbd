import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import * as entry from '../../../src/agent/index.ts';

const PAGE = readFileSync(new URL('../../../docs/agent.md', import.meta.url), 'utf8');

const folder = mkdtempSync(join(tmpdir(), 'agent-docs-'));
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

test('the example of the page runs', async () => {
  vi.stubEnv('CODEX_HOME', folder);
  vi.stubEnv('CODEX_EXEC_SERVER_URL', '');
  const printed: unknown[][] = [];
  vi.spyOn(console, 'log').mockImplementation((...values) => printed.push(values));
  const example = /```ts\n([\s\S]*?)```/.exec(PAGE)![1]!;
  const program = example.replace(/'exec-server\/(\w+)'/g, (_, name) =>
    JSON.stringify(fileURLToPath(new URL(`../../../src/${name}/index.ts`, import.meta.url))),
  );
  writeFileSync(join(folder, 'example.mjs'), program);
  await import(join(folder, 'example.mjs'));
  expect(printed[0]).toEqual(['tools for the model:', 'exec_command, write_stdin']);
  expect(printed[1]).toEqual([expect.stringMatching(/Process exited with code 0\n[\s\S]*hello bob\r\n$/)]);
});

test('the entry exports what the page explains', () => {
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

test('every kind of error, event and hook is explained', () => {
  const kinds: entry.ExecErrorKind[] = [
    ...(['invalidArguments', 'declined', 'unknownSession', 'stdinClosed', 'launchFailed'] as const),
    ...(['writeFailed', 'processFailed', 'aborted', 'overloaded', 'closed'] as const),
  ];
  const events = ['begin', 'outputDelta', 'terminalInteraction', 'end'] satisfies entry.ExecEvent['type'][];
  const hooks = ['approve', 'chooseSandbox', 'onDenied'] satisfies (keyof entry.ExecPolicy)[];
  for (const name of [...kinds, ...events, ...hooks]) expect(PAGE).toMatch(new RegExp(`\`${name}\\b`));
});
