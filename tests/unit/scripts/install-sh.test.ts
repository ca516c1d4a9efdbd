import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { repositoryHome } from '../../../scripts/repository-links.mjs';

const ROOT = join(import.meta.dirname, '../../..');
const SCRIPT = join(ROOT, 'scripts/install.sh');
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
function install(...args: string[]) {
  return dash(SCRIPT, ...args);
}

async function dash(...args: string[]) {
  const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: home };
  return await promisify(execFile)('dash', args, { env, cwd: home }).then(
    ({ stdout }) => ({ stdout, stderr: '', code: 0 }),
    ({ stdout, stderr, code }: { stdout: string; stderr: string; code: number }) => ({
      stdout,
      stderr,
      code,
    }),
  );
}

const fixture = (name: string) => join(import.meta.dirname, '../../fixtures', name);

const portOf = (server: Server) => (server.address() as AddressInfo).port;

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

  test('takes the executable beside it, and the latest release when there is none', async () => {
    const beside = join(release, 'install.sh');
    copyFileSync(SCRIPT, beside);
    expect(await dash(beside)).toMatchObject({ code: 0 });

    mkdirSync(join(folder, 'bin'));
    writeFileSync(join(folder, 'bin/curl'), '#!/bin/sh\nexit 6\n', { mode: 0o755 });
    const url = `${repositoryHome()}/releases/latest/download/SHA256SUMS`;
    const downloaded = { code: 1, stderr: `install.sh: cannot download ${url}\n` };
    expect(await install()).toMatchObject(downloaded);
    rmSync(join(release, NAME));
    expect(await dash(beside)).toMatchObject(downloaded);
    expect(await dash('-c', readFileSync(SCRIPT, 'utf8'))).toMatchObject(downloaded);
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

  test('verifies with a sha256sum that has no long options', async () => {
    mkdirSync(join(folder, 'bin'));
    const real = (await promisify(execFile)('sh', ['-c', 'command -v sha256sum'])).stdout.trim();
    const busybox = `#!/bin/sh\ncase $1 in --*) exit 1 ;; esac\nexec ${real} "$@"\n`;
    writeFileSync(join(folder, 'bin/sha256sum'), busybox, { mode: 0o755 });
    expect(await install('--from', release)).toMatchObject({ code: 0 });
    writeFileSync(join(release, NAME), 'something else');
    expect(await install('--from', release)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^install\.sh: the SHA-256 of .* is not the one in SHA256SUMS;.*\n$/),
    });
  });

  test('shows the whole path of a relative prefix', async () => {
    const { stdout, code } = await install('--from', release, '--prefix', 'tools');
    expect([code, stdout]).toEqual([0, expect.stringContaining(`export PATH="${home}/tools/bin:$PATH"`)]);
  });

  test('puts nothing into a folder with the name of the program', async () => {
    const taken = join(home, '.local/bin/exec-server');
    mkdirSync(taken, { recursive: true });
    expect(await install('--from', release)).toMatchObject({
      code: 1,
      stderr: `install.sh: ${taken} is a folder; remove it, or pass another --prefix\n`,
    });
    expect(written()).toEqual(['.local', '.local/bin', '.local/bin/exec-server']);
  });

  test.for(['curl', 'wget'])(
    'follows no redirect from https to http with %s',
    async (downloader, { skip }) => {
      const tools = join(folder, 'tools');
      mkdirSync(tools);
      const names = 'chmod dirname grep ls mkdir mktemp mv rm sha256sum tail uname';
      for (const name of [downloader, ...names.split(' ')]) {
        const paths = process.env.PATH!.split(':').map((part) => join(part, name));
        const path = paths.find(existsSync) ?? skip(`${name} is not installed`);
        symlinkSync(path, join(tools, name));
      }
      writeFileSync(join(folder, 'wgetrc'), `ca_certificate = ${fixture('localhost-cert.pem')}\n`);
      const env = {
        ...{ PATH: tools, HOME: home, WGETRC: join(folder, 'wgetrc') },
        CURL_CA_BUNDLE: fixture('localhost-cert.pem'),
      };
      const plain = createServer(({ url }, response) => response.end(readFileSync(join(release, url!))));
      const credentials = {
        cert: readFileSync(fixture('localhost-cert.pem')),
        key: readFileSync(fixture('localhost-key.pem')),
      };
      const secure = createSecureServer(credentials, ({ url }, response) => {
        const [, kind, name] = url!.split('/');
        if (kind === 'files') return response.end(readFileSync(join(release, name!)));
        const target = kind === 'http' ? `http://127.0.0.1:${portOf(plain)}` : '/files';
        return response.writeHead(302, { location: `${target}/${name}` }).end();
      });
      for (const server of [plain, secure]) await once(server.listen(0, '127.0.0.1'), 'listening');
      try {
        const from = (kind: string) => `--from=https://localhost:${portOf(secure)}/${kind}`;
        await expect(promisify(execFile)('/bin/sh', [SCRIPT, from('http')], { env })).rejects.toMatchObject({
          code: 1,
          stderr: expect.stringContaining(
            `cannot download https://localhost:${portOf(secure)}/http/SHA256SUMS`,
          ),
        });
        expect(written()).toEqual(['.local', '.local/bin']);
        await promisify(execFile)('/bin/sh', [SCRIPT, from('https')], { env });
        expect(written()).toContain('.local/bin/exec-server');
      } finally {
        plain.close();
        secure.close();
      }
    },
  );

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
