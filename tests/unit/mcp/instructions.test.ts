import { expect, test } from 'vitest';
import { descriptionFor, instructionsFor } from '../../../src/mcp/instructions.ts';
import type { McpEnvironment } from '../../../src/mcp/options.ts';

const environment = (name: string) =>
  ({ name, isLocal: name === 'local', roots: [] }) as unknown as McpEnvironment;
const CHOICES = {
  environments: [environment('local')],
  readOnly: false,
  sandbox: 'workspace-write',
  directory: '/project',
  confineRoots: false,
} as const;
const NONE = new Map<string, readonly string[]>();

test('the instructions name the sandbox and the workspace', () => {
  const text = instructionsFor(CHOICES, NONE);
  for (const part of ['workspace-write', 'no network', '.git', '/tmp', '1 MiB']) expect(text).toContain(part);
  expect(text).toContain(
    'The workspace is what the client names as its roots, or /project if it names none.',
  );
  expect(instructionsFor({ ...CHOICES, sandbox: 'off' }, NONE)).not.toContain('network');
});

test('the instructions of --read-only name no tool that it does not have', () => {
  const text = instructionsFor({ ...CHOICES, readOnly: true }, NONE);
  expect(text).toContain('--read-only');
  expect(text).not.toMatch(/exec_command|write_stdin|kill_process|write_file|edit_file/);
});

test('tools that change something are described with the workspace in force', () => {
  const choices = { ...CHOICES, environments: [environment('local'), environment('gpu')] };
  const describe = (name: 'exec_command' | 'write_file' | 'read_file') =>
    descriptionFor({ name, description: 'D.' }, choices, new Map([['local', ['/a', '/b']]]));
  const workspace =
    'The workspace is /a, /b in the environment "local"; its default directory in the environment "gpu".';
  expect(describe('exec_command')).toMatch(/^D\. Sandbox workspace-write: .* no network/);
  expect(describe('exec_command')).toContain(workspace);
  expect(describe('write_file')).toBe(`D. It works only in the workspace. ${workspace}`);
  expect(describe('read_file')).toBe('D.');
});
