import { afterAll, expect, test } from 'vitest';
import { AUDIT_HELP, auditCommand } from '../../../src/cli/audit-command.ts';
import { RunError, UsageError } from '../../../src/cli/failures.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

const LINE = '{"seq":0,"event":"opened","prev":null}\n';

test('a log in order is reported with the hash of its last line', async () => {
  const file = workspace.file('good', LINE);
  expect(await auditCommand(['verify', file])).toMatch(
    /^in order: 1 lines, the last has the hash [0-9a-f]{64}\n$/,
  );
});

test('a log that is not is refused with the file and the line', async () => {
  const file = workspace.file('bad', `${LINE}${LINE}`);
  await expect(auditCommand(['verify', file])).rejects.toThrow(RunError);
  await expect(auditCommand(['verify', file])).rejects.toThrow(`${file}: line 2: `);
  await expect(auditCommand(['verify', '/nowhere'])).rejects.toThrow(/cannot read the audit log: ENOENT/);
});

test.each([
  [[], "audit needs 'verify FILE', not nothing"],
  [['check'], "audit needs 'verify FILE', not 'check'"],
  [['verify'], 'audit verify needs a file'],
  [['verify', '--fast'], "unknown flag '--fast'"],
])('%j is bad usage', async (argv, message) => {
  await expect(auditCommand(argv)).rejects.toThrow(UsageError);
  await expect(auditCommand(argv)).rejects.toThrow(message);
});

test('help fits a terminal', async () => {
  for (const argv of [['--help'], ['verify', '-h']]) expect(await auditCommand(argv)).toBe(AUDIT_HELP);
  for (const line of AUDIT_HELP.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
});

test('the exit code tells a script how it went', async () => {
  const good = workspace.file('good', LINE);
  expect(await workspace.run(['audit', 'verify', good])).toMatchObject({ code: 0, stderr: '' });
  const bad = workspace.file('bad', 'nonsense\n');
  expect(await workspace.run(['audit', 'verify', bad])).toMatchObject({ code: 1, stdout: '' });
  expect(await workspace.run(['audit'])).toMatchObject({ code: 2, stdout: '' });
});
