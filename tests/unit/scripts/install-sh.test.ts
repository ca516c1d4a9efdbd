import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const SCRIPT = join(import.meta.dirname, '../../../scripts/install.sh');
const NAME = `exec-server-linux-${process.arch}`;
/** Stands in for the executable: install.sh runs it for its version. */
const PROGRAM = '#!/bin/sh\necho exec-server 9.9.9\n';

let folder: string;
let release: string;
let home: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'install-sh-'));
  [release, home] = [join(folder, 'release'), join(folder, 'home')];
  for (const path of [release, home]) mkdirSync(path);
  writeFileSync(join(release, NAME), PROGRAM);
  const hash = createHash('sha256').update(PROGRAM).digest('hex');
  writeFileSync(join(release, 'SHA256SUMS'), `${hash}  ${NAME}\n${'0'.repeat(64)}  install.sh\n`);
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs install.sh with the smallest shell there is, and reports its output and exit code. */
async function install(...args: string[]) {
  const env = { PATH: `${process.env.PATH}`, HOME: home };
  return await promisify(execFile)('dash', [SCRIPT, ...args], { env }).then(
    ({ stdout }) => ({ stdout, stderr: '', code: 0 }),
    ({ stdout, stderr, code }: { stdout: string; stderr: string; code: number }) => ({
      stdout,
      stderr,
      code,
    }),
  );
}

const written = () => readdirSync(home, { recursive: true, encoding: 'utf8' }).sort();

describe('install.sh', () => {
  test('installs a verified executable and writes nothing else', async () => {
    const { stdout, code } = await install('--from', release);
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`Installed exec-server 9.9.9: ${home}/.local/bin/exec-server`),
    ]);
    expect(stdout).toContain(`export PATH="${home}/.local/bin:$PATH"`);
    expect(written()).toEqual(['.local', '.local/bin', '.local/bin/exec-server']);
  });

  test('downloads from a URL and replaces an earlier version', async () => {
    const prefix = join(home, 'a folder');
    mkdirSync(join(prefix, 'bin'), { recursive: true });
    writeFileSync(join(prefix, 'bin/exec-server'), 'old');
    const server = createServer(({ url }, response) =>
      response.end(readFileSync(join(release, url!.slice('/dl/'.length)))),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const { port } = server.address() as AddressInfo;
      const { code, stderr } = await install(`--from=http://127.0.0.1:${port}/dl/`, '--prefix', prefix);
      expect([code, stderr]).toEqual([0, '']);
    } finally {
      server.close();
    }
    expect(readFileSync(join(prefix, 'bin/exec-server'), 'utf8')).toBe(PROGRAM);
  });

  test.each<[string, () => void, string]>([
    ['another content', () => writeFileSync(join(release, NAME), `${PROGRAM}#`), 'SHA-256'],
    ['no checksum', () => writeFileSync(join(release, 'SHA256SUMS'), ''), 'SHA256SUMS has no line'],
    ['no executable', () => rmSync(join(release, NAME)), 'there is no file'],
  ])('refuses %s and leaves nothing behind', async (_name, spoil, message) => {
    spoil();
    const { code, stderr } = await install('--from', release);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
    expect(written()).toEqual(['.local', '.local/bin']);
  });

  test.each([['--form', 'x'], ['--from'], ['--prefix', '']])('refuses the arguments %s', async (...args) => {
    expect((await install(...args)).code).toBe(1);
    expect(written()).toEqual([]);
  });
});
