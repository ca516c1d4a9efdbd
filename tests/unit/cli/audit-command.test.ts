import { afterAll, expect, test } from 'vitest';
import { auditCommand } from '../../../src/cli/audit-command.ts';
import { RunError, UsageError } from '../../../src/cli/failures.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

const LINE = '{"seq":0,"event":"opened","prev":null}\n';

test('prints the hash of the last line of a valid log', async () => {
  const file = workspace.file('good', LINE);
  expect(await auditCommand(['verify', file])).toMatch(/^valid: 1 lines, hash of the last: [0-9a-f]{64}\n$/);
});

test('names the file and the line of a damaged log', async () => {
  const file = workspace.file('bad', `${LINE}${LINE}`);
  await expect(auditCommand(['verify', file])).rejects.toThrow(RunError);
  await expect(auditCommand(['verify', file])).rejects.toThrow(`${file}: line 2: `);
  await expect(auditCommand(['verify', '/nowhere'])).rejects.toThrow(
    'cannot read the audit log /nowhere: no such file or directory; check the path',
  );
  await expect(auditCommand(['verify', file, '/'])).rejects.toThrow(`${file}: line 2: `);
  await expect(auditCommand(['verify', '/'])).rejects.toThrow(
    'cannot read the audit log /: it is a directory; name a file',
  );
});

test.each([
  [[], "expected 'verify FILE'"],
  [['check'], "expected 'verify FILE', not 'check'"],
  [['verify'], 'verify needs a file'],
  [['verify', '--fast'], "unknown flag '--fast'"],
])('rejects %j', async (argv, message) => {
  await expect(auditCommand(argv)).rejects.toThrow(UsageError);
  await expect(auditCommand(argv)).rejects.toThrow(message);
});

test('the exit code is 0, 1 or 2', async () => {
  const good = workspace.file('good', LINE);
  expect(await workspace.run(['audit', 'verify', good])).toMatchObject({ code: 0, stderr: '' });
  const { stdout } = await workspace.run(['audit', 'verify', '--json', good]);
  expect(JSON.parse(stdout)).toEqual({
    lines: expect.any(Number),
    head: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  const bad = workspace.file('bad', 'not json\n');
  expect(await workspace.run(['audit', 'verify', bad])).toMatchObject({ code: 1, stdout: '' });
  expect(await workspace.run(['audit'])).toMatchObject({ code: 2, stdout: '' });
});
