import { expect, test } from 'vitest';
import { trimSandbox } from '../../../../src/client/files/sandbox-context.ts';

const PLACE = { cwd: 'file:///w', workspaceRoots: ['file:///w'] };

function restricted(...paths: object[]) {
  const entries = paths.map((path) => ({ path, access: 'read' }));
  return {
    permissions: { type: 'managed', file_system: { type: 'restricted', entries }, network: 'restricted' },
  };
}

test.each([
  ['no rules', { permissions: { type: 'disabled' } }],
  ['an unrestricted disk', { permissions: { type: 'managed', file_system: { type: 'unrestricted' } } }],
  ['paths', restricted({ type: 'path', path: 'file:///a' })],
  ['special paths', restricted({ type: 'special', value: { kind: 'root' } })],
  ['absolute globs', restricted({ type: 'glob_pattern', pattern: '/a/**' })],
  ['absolute globs of Windows', restricted({ type: 'glob_pattern', pattern: 'C:\\a\\**' })],
])('leaves out the directories with %s', (_name, sandbox) => {
  expect(trimSandbox({ ...sandbox, ...PLACE, windowsSandboxLevel: 'disabled' })).toEqual({
    ...sandbox,
    windowsSandboxLevel: 'disabled',
  });
});

test.each([
  ['workspace roots', restricted({ type: 'special', value: { kind: 'project_roots' } })],
  ['their older name', restricted({ type: 'special', value: { kind: 'current_working_directory' } })],
  ['relative globs', restricted({ type: 'glob_pattern', pattern: '**/.env' })],
  ['globs below the roots', restricted({ type: 'glob_pattern', pattern: 'codex-project-roots://**' })],
  ['rules of an unknown form', restricted('somewhere' as unknown as object)],
  [
    'one rule of several that needs them',
    restricted({ type: 'path', path: 'file:///a' }, { type: 'glob_pattern', pattern: 'x' }),
  ],
])('keeps the directories with %s', (_name, sandbox) => {
  const whole = { ...sandbox, ...PLACE };
  expect(trimSandbox(whole)).toEqual(whole);
});

test.each([null, 'text', [PLACE], { ...PLACE }, { permissions: 1, ...PLACE }])(
  'returns %j unchanged',
  (sandbox) => {
    expect(trimSandbox(sandbox)).toEqual(sandbox);
  },
);
