import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureReference, startReference } from '../../scripts/reference.mjs';
import { CommandUser } from '../support/private-server.ts';

const skipped = (await ensureReference().catch((error: Error) => error)) instanceof Error;

describe.skipIf(skipped)('the commands of this project with a server of the reference', () => {
  const user = new CommandUser();
  let server: Awaited<ReturnType<typeof startReference>>;
  beforeAll(async () => {
    server = await startReference();
  });
  afterAll(async () => {
    await server?.stop();
    await user.close();
  });
  const run = (command: string, ...args: string[]) => user.run([command, '-E', server.url!, ...args]);

  test('run has the output and the exit code of a program', async () => {
    expect(await run('run', '-n', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3')).toMatchObject({
      ...{ code: 3, stdout: 'out\n', stderr: 'err\n' },
    });
    expect((await run('run', '-n', 'no-such-program')).code).toBe(127);
  });

  test('run says that the server cannot close stdin', async () => {
    const { child, outcome } = user.start(['run', '-E', server.url!, '--', 'cat']);
    child.stdin.end('typed\n');
    expect(await outcome).toMatchObject({
      code: 125,
      stderr: expect.stringMatching(/cannot close stdin, .*; use -n for one that needs no input\n$/),
    });
  });

  test('cp copies a file from it', async () => {
    const file = user.workspace.file('file', 'content');
    const copy = join(user.workspace.path, 'copy');
    expect(await user.run(['cp', `${server.url}:${file}`, copy])).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(copy, 'utf8')).toBe('content');
  });

  test.each<[string, ...string[]]>([
    ['ps'],
    ['run', '-d', 'true'],
    ['attach', 'job'],
    ['logs', 'job'],
    ['port-forward', '0:1'],
    ['recordings'],
  ])('%j says that the server cannot do it', async (command, ...operands) => {
    const { code, stdout, stderr } = await run(command, ...operands);
    expect([code, stdout]).toEqual([125, '']);
    expect(stderr).toMatch(/^exec-server.*(?:the server|it) (?:does not|cannot|lacks).*\n$/);
  });
});
