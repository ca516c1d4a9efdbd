import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { doctorCommand } from '../../../src/cli/doctor-command.ts';
import { UsageError } from '../../../src/cli/failures.ts';
import { childPids } from '../../support/children.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'doctor-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

afterAll(() => {
  workspace.close();
  expect(childPids()).toEqual([]);
});

const HEADINGS = ['Sandbox', 'Escape attempts by a program', 'Escape attempts by file operations', 'Other'];

describe('on a machine where sandboxes work', () => {
  test('prints a table and exits with 0', async () => {
    const { code, stdout, stderr } = await workspace.run(['doctor']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').filter((line) => /^[A-Z]/.test(line))).toEqual([
      ...HEADINGS,
      'Sandboxes are reliable on this machine.',
    ]);
    expect(stdout).not.toContain('✗');
    expect(stdout).toMatch(/^ {2}✓ change \.git\/config {2,}stopped: EROFS \(open\)$/m);
  });

  test('prints the same checks as JSON', async () => {
    const { text, exitCode } = await doctorCommand(['--json'], process.env);
    const { reliable, checks } = JSON.parse(text);
    expect({ reliable, exitCode }).toEqual({ reliable: true, exitCode: 0 });
    expect([...new Set(checks.map(({ group }: { group: string }) => group))]).toEqual(HEADINGS);
    expect(checks[0]).toEqual({
      group: 'Sandbox',
      name: 'bwrap',
      state: 'ok',
      detail: expect.stringContaining('/bwrap (bubblewrap '),
      fix: null,
    });
  });
});

describe('on a machine where sandboxes do not work', () => {
  test('fails without bwrap, but not for missing optional programs', async () => {
    const { text, exitCode } = await doctorCommand([], { PATH: folder });
    expect(exitCode).toBe(1);
    expect(text).toMatch(/^ {2}✗ bwrap {2,}bwrap was not found on this server's PATH \(.*\)$/m);
    expect(text).toMatch(/^ +-> install the package bubblewrap \(apt-get install bubblewrap/m);
    expect(text).toMatch(
      /^ {2}- ripgrep {2,}fs\/search uses its built-in engine, which is slower\n +-> .*ripgrep/m,
    );
    expect(text).toMatch(/^ {2}- zsh {2,}not installed$/m);
    expect(text).toMatch(/^Sandboxes are not reliable on this machine\./m);
    expect(text).not.toContain('Escape attempts');
  });

  test('examines the programs that the settings name, not those on the PATH', async () => {
    const { text } = await doctorCommand([], {
      ...process.env,
      EXEC_SERVER_BWRAP_PATH: '/nowhere/bwrap',
      EXEC_SERVER_RIPGREP_PATH: '/opt/rg',
    });
    expect(text).toMatch(/^ {2}✗ bwrap {2,}\/nowhere\/bwrap \(bwrapPath\) is not an executable file$/m);
    expect(text).toMatch(/^ {2}✓ ripgrep {2,}\/opt\/rg$/m);
  });

  test('names the command that allows user namespaces', async () => {
    const message = 'bwrap: Creating new namespace failed: Operation not permitted';
    const script = `#!/bin/sh\n[ "$1" = --version ] && exec /usr/bin/bwrap "$@"\necho "${message}" >&2; exit 1\n`;
    writeFileSync(join(folder, 'bwrap'), script, { mode: 0o755 });
    const { text, exitCode } = await doctorCommand(['--json'], { PATH: folder });
    const { reliable, checks } = JSON.parse(text);
    expect({ reliable, exitCode }).toEqual({ reliable: false, exitCode: 1 });
    expect(checks).toContainEqual({
      group: 'Sandbox',
      name: 'user namespaces',
      state: 'failed',
      detail: message,
      fix: expect.stringContaining('sysctl -w kernel.unprivileged_userns_clone=1'),
    });
  });
});

test('rejects other arguments', async () => {
  await expect(doctorCommand(['--fix'], {})).rejects.toThrow(
    new UsageError("unknown flag '--fix'; 'exec-server doctor --help' lists them", 'doctor'),
  );
});
