import { existsSync, lstatSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Attempt,
  type AttemptReport,
  expectUnharmed,
  makeAttempts,
} from '../support/escape-attempts.ts';
import {
  at,
  denyGlob,
  EscapeFixture,
  type EscapeServer,
  SECRET,
  SERVER_USERS,
  UNTOUCHED,
} from '../support/escape-fixture.ts';

const gitIsWhole = (fixture: EscapeFixture) => {
  expect(fixture.names('workspace/.git')).toEqual(['HEAD', 'config', 'hooks']);
  expect(fixture.names('workspace/.git/hooks')).toEqual([]);
  expect(fixture.read('workspace/.git/config')).toBe(UNTOUCHED);
  expect(lstatSync(join(fixture.workspace, '.git/config')).mode & 0o7777).toBe(0o644);
};
const carvedIsWhole = (fixture: EscapeFixture) => {
  expect(fixture.names('workspace/tree/carved')).toEqual(['file']);
  expect(fixture.read('workspace/tree/carved/file')).toBe(UNTOUCHED);
};
const deniedIsWhole = (fixture: EscapeFixture) => {
  expect(fixture.read('workspace/denied/file')).toBe(SECRET);
  expect(fixture.read('workspace/hidden.txt')).toBe(SECRET);
};
const nothingAt =
  (...names: string[]) =>
  (fixture: EscapeFixture) => {
    for (const name of names) expect(existsSync(join(fixture.path, name)), name).toBe(false);
  };

const LINKS: readonly Attempt[] = [
  { name: 'an absolute link', python: "os.symlink(T, W + '/l1'); write(W + '/l1')" },
  {
    name: 'a relative link',
    python: "os.symlink('../outside/' + os.path.basename(T), W + '/l2'); write(W + '/l2')",
  },
  {
    name: 'a chain of links',
    python: `
os.symlink(T, W + '/c0')
for i in range(20): os.symlink('c%d' % i, W + '/c%d' % (i + 1))
write(W + '/c20')`,
  },
  {
    name: 'a link in the middle of a path',
    python: "os.symlink(O, W + '/l3'); write(W + '/l3/' + os.path.basename(N))",
  },
  { name: 'a link to nothing yet', python: "os.symlink(N, W + '/l4'); write(W + '/l4')" },
  { name: 'the root of this process', python: "write('/proc/self/root' + T)" },
  { name: 'the root of the first process', python: "write('/proc/1/root' + T)" },
  { name: 'the working directory of the first process', python: "write('/proc/1/cwd/..' + T)" },
  {
    name: 'a link to the root of the first process',
    python: "os.symlink('/proc/1/root' + O, W + '/l5'); write(W + '/l5/' + os.path.basename(N))",
  },
  {
    name: 'a directory that is open for reading',
    python: 'd = os.open(O, os.O_RDONLY); os.open(os.path.basename(N), os.O_CREAT | os.O_WRONLY, dir_fd=d)',
  },
  {
    name: 'a file that is open for reading, opened again',
    python: "f = os.open(T, os.O_RDONLY); write('/proc/self/fd/%d' % f)",
  },
  {
    name: 'a file that is open as a path only, opened again',
    python: "f = os.open(T, os.O_PATH); write('/proc/self/fd/%d' % f)",
  },
  {
    name: 'a link that is replaced with a file again and again',
    python: `
write(W + '/plain')
os.symlink(T, W + '/bait')
if os.fork() == 0:
    for _ in range(20000): libc.renameat2(-100, (W + '/plain').encode(), -100, (W + '/bait').encode(), 2)
    os._exit(0)
for _ in range(3000):
    try: write(W + '/bait')
    except OSError: pass`,
  },
];

const HARD_LINKS: readonly Attempt[] = [
  { name: 'a hard link to a file outside', python: "os.link(T, W + '/h1'); write(W + '/h1')" },
  {
    name: 'a hard link through a descriptor',
    python:
      "f = os.open(T, os.O_RDONLY); os.link('/proc/self/fd/%d' % f, W + '/h2', follow_symlinks=True); write(W + '/h2')",
  },
  {
    name: 'a hard link of a descriptor itself',
    python:
      "f = os.open(T, os.O_RDONLY); checked(libc.linkat(f, b'', -100, (W + '/h3').encode(), 0x1000)); write(W + '/h3')",
  },
  { name: 'a hard link out of the workspace', python: "write(W + '/own'); os.link(W + '/own', N)" },
  {
    name: 'a hard link to a read-only file inside',
    python: "os.link(W + '/tree/carved/file', W + '/h4'); write(W + '/h4')",
    host: carvedIsWhole,
  },
  {
    name: 'a hard link to a protected file',
    python: "os.link(W + '/.git/config', W + '/h5'); write(W + '/h5')",
    host: gitIsWhole,
  },
  {
    name: 'a hard link to a denied file',
    python: "os.link(W + '/hidden.txt', W + '/h6'); show(W + '/h6')",
    host: deniedIsWhole,
  },
  {
    name: 'a hard link to a file that a pattern denies',
    python: "os.link(W + '/keys/a.pem', W + '/h7'); show(W + '/h7')",
  },
  {
    name: 'a hard link into a denied directory',
    python: "os.link(W + '/denied/file', W + '/h8'); show(W + '/h8')",
    host: deniedIsWhole,
  },
];

const RENAMES: readonly Attempt[] = [
  { name: 'moving a file out', python: "write(W + '/mine'); os.rename(W + '/mine', N)" },
  { name: 'moving a file in', python: "os.rename(T, W + '/theirs')" },
  {
    name: 'moving a read-only directory away',
    python: "os.rename(W + '/tree/carved', W + '/tree/moved')",
    host: carvedIsWhole,
  },
  {
    name: 'moving the parent of a read-only directory away',
    python:
      "os.rename(W + '/tree', W + '/moved'); os.makedirs(W + '/tree/carved'); write(W + '/tree/carved/file')",
    host: carvedIsWhole,
  },
  { name: 'moving the workspace itself', python: "os.rename(W, W + '-moved')", host: gitIsWhole },
  {
    name: 'moving a protected directory away',
    python: "os.rename(W + '/.git', W + '/git')",
    host: gitIsWhole,
  },
  {
    name: 'exchanging a protected directory',
    python:
      "os.mkdir(W + '/evil'); checked(libc.renameat2(-100, (W + '/evil').encode(), -100, (W + '/.git').encode(), 2))",
    host: gitIsWhole,
  },
  {
    name: 'moving a directory over a protected one',
    python: "os.mkdir(W + '/evil2'); os.rename(W + '/evil2', W + '/.git')",
    host: gitIsWhole,
  },
  {
    name: 'moving a directory to a protected name',
    python: "os.mkdir(W + '/evil3'); write(W + '/evil3/config'); os.rename(W + '/evil3', W + '/.codex')",
    host: nothingAt('workspace/.codex'),
  },
  {
    name: 'moving a link to a protected name',
    python: "os.symlink(O, W + '/evil4'); os.rename(W + '/evil4', W + '/.agents')",
    host: nothingAt('workspace/.agents'),
  },
  {
    name: 'moving the parent of an absent protected path',
    python: "os.rename(W + '/later', W + '/now'); os.makedirs(W + '/later'); write(W + '/later/file')",
    host: nothingAt('workspace/later/file'),
  },
  {
    name: 'moving a denied directory away',
    python: "os.rename(W + '/denied', W + '/open'); show(W + '/open/file')",
    host: deniedIsWhole,
  },
  {
    name: 'moving a denied file away',
    python: "os.rename(W + '/hidden.txt', W + '/open.txt'); show(W + '/open.txt')",
    host: deniedIsWhole,
  },
  {
    name: 'moving something over a denied file',
    python: "write(W + '/other'); os.rename(W + '/other', W + '/hidden.txt')",
    host: deniedIsWhole,
  },
  {
    name: 'removing a protected directory',
    python: "import shutil; shutil.rmtree(W + '/.git')",
    host: gitIsWhole,
  },
];

const PROTECTED: readonly Attempt[] = [
  { name: 'a new hook', python: "write(W + '/.git/hooks/pre-commit')", host: gitIsWhole },
  { name: 'a changed configuration', python: "write(W + '/.git/config')", host: gitIsWhole },
  { name: 'a truncated configuration', python: "os.truncate(W + '/.git/config', 0)", host: gitIsWhole },
  {
    name: 'another mode of the configuration',
    python: "os.chmod(W + '/.git/config', 0o777)",
    host: gitIsWhole,
  },
  {
    name: 'another name for the protected directory',
    python: "os.symlink('.git', W + '/g'); write(W + '/g/hooks/pre-commit')",
    host: gitIsWhole,
  },
  {
    name: 'a detour to the protected directory',
    python: "write(W + '//tree/..//./.git/./hooks/../config')",
    host: gitIsWhole,
  },
  {
    name: 'the protected directory by way of a descriptor',
    python: "d = os.open(W + '/.git', os.O_RDONLY); os.mkdir('hooks/x', dir_fd=d)",
    host: gitIsWhole,
  },
  {
    name: 'a protected directory that is missing',
    python: "os.makedirs(W + '/.codex/x', exist_ok=True); write(W + '/.codex/config.toml')",
    host: nothingAt('workspace/.codex'),
  },
  {
    name: 'a missing protected directory that is created after it was removed',
    python: "os.rmdir(W + '/.codex'); os.mkdir(W + '/.codex'); write(W + '/.codex/config.toml')",
    host: nothingAt('workspace/.codex'),
  },
  {
    name: 'names that look like protected ones',
    python: `
for name in ('.GIT', '.Git', '.git ', '.git.', '.g\\u200cit', '\\uff0egit', '.CODEX', '.codex ', '.agents.', 'git~1'):
    try: os.mkdir(W + '/' + name); write(W + '/' + name + '/config')
    except OSError: pass`,
    host: (fixture) => {
      gitIsWhole(fixture);
      nothingAt('workspace/.codex', 'workspace/.agents', 'workspace/.aws')(fixture);
    },
  },
];

const DENIED: readonly Attempt[] = [
  { name: 'reading a denied file', python: "show(W + '/hidden.txt')" },
  { name: 'reading in a denied directory', python: "show(W + '/denied/file')" },
  {
    name: 'listing a denied directory',
    python: "print(os.listdir(W + '/denied'), os.stat(W + '/denied/file'))",
    host: (_, raised) => expect(raised).not.toBeNull(),
  },
  { name: 'another spelling of a denied path', python: "show('//' + W + '/./tree/../hidden.txt')" },
  {
    name: 'a denied path below the root of the first process',
    python: "show('/proc/1/root' + W + '/hidden.txt')",
  },
  { name: 'a link to a denied file', python: "os.symlink('hidden.txt', W + '/d1'); show(W + '/d1')" },
  {
    name: 'a denied file as a path, opened again',
    python: "f = os.open(W + '/hidden.txt', os.O_PATH); show('/proc/self/fd/%d' % f)",
  },
  {
    name: 'opening up a denied file',
    python: "os.chmod(W + '/hidden.txt', 0o666); show(W + '/hidden.txt')",
    host: deniedIsWhole,
  },
  {
    name: 'opening up a denied directory',
    python: "os.chmod(W + '/denied', 0o777); show(W + '/denied/file')",
    host: deniedIsWhole,
  },
  { name: 'a file that a pattern denies', python: "show(W + '/keys/a.pem')" },
  { name: 'a file that a pattern denies, deep down', python: "show(W + '/tree/deep/.env')" },
  { name: 'executing a denied file', python: "subprocess.run(['/bin/sh', W + '/hidden.txt'], check=True)" },
];

const METADATA: readonly Attempt[] = [
  { name: 'another mode of a file outside', python: 'os.chmod(T, 0o777)' },
  { name: 'another mode through a descriptor', python: 'os.fchmod(os.open(T, os.O_RDONLY), 0o4777)' },
  {
    name: 'another mode through a path descriptor',
    python: "os.chmod('/proc/self/fd/%d' % os.open(T, os.O_PATH), 0o777)",
  },
  { name: 'removing a file outside', python: 'os.unlink(T)' },
  { name: 'emptying a file outside', python: 'os.truncate(T, 0)' },
  { name: 'a directory outside', python: 'os.mkdir(N)' },
  { name: 'a fifo outside', python: 'os.mkfifo(N)' },
  { name: 'a socket outside', python: 'os.mknod(N, stat.S_IFSOCK | 0o600)' },
  {
    name: 'the times of a file outside',
    python: 'os.utime(T, (1, 1))',
    host: (_, raised) => expect(raised).not.toBeNull(),
  },
  {
    name: 'an attribute of a file outside',
    python: "os.setxattr(T, 'user.escaped', b'1')",
    host: (_, raised) => expect(raised).not.toBeNull(),
  },
  {
    name: 'the flags of a file outside',
    python: "import fcntl; fcntl.ioctl(os.open(T, os.O_RDONLY), 0x40086602, struct.pack('l', 0x80))",
    host: (_, raised) => expect(raised).not.toBeNull(),
  },
  {
    name: 'a mapping of a file outside',
    python: "mmap.mmap(os.open(T, os.O_RDONLY), 4, mmap.MAP_SHARED, mmap.PROT_WRITE)[0:4] = b'esca'",
  },
];

const SPECIAL_LOCATIONS: readonly Attempt[] = [
  {
    name: 'the rc files of the home directory',
    python:
      "home = os.path.expanduser('~')\nfor name in ('.bashrc', '.profile', '.ssh/authorized_keys'):\n    try: write(home + '/' + name)\n    except OSError: pass",
    host: (fixture) =>
      expect(fixture.read('home/.bashrc') + fixture.names('home').join()).toBe(`${UNTOUCHED}.bashrc`),
  },
  {
    name: 'the directory for temporary files',
    python: "write(os.environ['TMPDIR'] + '/temporary')",
    host: nothingAt('temporary/temporary'),
  },
  {
    name: 'jobs and libraries of the system',
    python:
      "for path in ('/etc/cron.d/escaped', '/etc/profile.d/escaped.sh', '/etc/ld.so.preload.escaped', '/run/escaped', '/var/tmp/escaped', '/usr/local/bin/escaped'):\n    try: write(path)\n    except OSError: pass",
    host: () => {
      for (const path of [
        '/etc/cron.d/escaped',
        '/etc/profile.d/escaped.sh',
        '/etc/ld.so.preload.escaped',
        '/run/escaped',
        '/var/tmp/escaped',
        '/usr/local/bin/escaped',
      ])
        expect(existsSync(path), path).toBe(false);
    },
  },
  {
    name: 'shared memory of the host',
    python:
      "print(os.listdir('/dev/shm'))\nwrite('/dev/shm/new-' + os.path.basename(os.path.dirname(O)))\nshow('/dev/shm/' + os.path.basename(os.path.dirname(O)))",
    host: (fixture) => expect(existsSync(`/dev/shm/new-${basename(fixture.path)}`)).toBe(false),
  },
  {
    name: 'a device of memory',
    python: "os.mknod(W + '/mem', stat.S_IFCHR | 0o666, os.makedev(1, 1)); open(W + '/mem', 'rb').read(1)",
    host: nothingAt('workspace/mem'),
  },
  {
    name: 'the disk itself',
    python:
      "major = os.stat(W).st_dev\nos.mknod(W + '/disk', stat.S_IFBLK | 0o666, major); open(W + '/disk', 'rb').read(1)",
    host: nothingAt('workspace/disk'),
  },
  {
    name: 'devices of the host',
    python:
      "found = [name for name in ('mem', 'kmsg', 'port', 'kvm', 'vda', 'sda', 'fuse', 'loop-control', 'net/tun', 'vhost-vsock', 'mapper/control', 'uinput') if os.path.exists('/dev/' + name)]\nif found: print(found)\nelse: raise OSError('none')",
    host: (_, raised) => expect(raised).not.toBeNull(),
  },
];

const THEMES: readonly (readonly [string, readonly Attempt[]])[] = [
  ['denied files', DENIED],
  ['symbolic links', LINKS],
  ['hard links', HARD_LINKS],
  ['renaming', RENAMES],
  ['protected names', PROTECTED],
  ['other ways to change a file', METADATA],
  ['special locations', SPECIAL_LOCATIONS],
];

describe.each(SERVER_USERS)('a program of a server run by %s does not escape by', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  const report: Record<string, AttemptReport[string]> = {};

  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    server = await fixture.serve();
    for (const name of ['HEAD', 'config']) fixture.file(`workspace/.git/${name}`);
    fixture.directory('workspace/.git/hooks');
    fixture.directory('workspace/later');
    fixture.directory('temporary');
    fixture.file('home/.bashrc');
    fixture.file('workspace/tree/carved/file');
    for (const name of ['denied/file', 'hidden.txt', 'keys/a.pem', 'tree/deep/.env'])
      fixture.file(`workspace/${name}`, SECRET);
    const shared = join('/dev/shm', basename(fixture.path));
    writeFileSync(shared, SECRET);
    try {
      const sandbox = fixture.profile(
        at(join(fixture.workspace, 'tree/carved'), 'read'),
        at(join(fixture.workspace, 'later/file'), 'read'),
        at(join(fixture.workspace, 'denied'), 'deny'),
        at(join(fixture.workspace, 'hidden.txt'), 'deny'),
        denyGlob(join(fixture.workspace, 'keys/*.pem')),
        denyGlob(join(fixture.workspace, '**/.env')),
      );
      const env = { HOME: join(fixture.path, 'home'), TMPDIR: join(fixture.path, 'temporary') };
      const all = THEMES.flatMap(([, attempts]) => attempts);
      Object.assign(
        report,
        await makeAttempts(fixture, server, all, sandbox, { cwd: fixture.workspace, env }),
      );
    } finally {
      rmSync(shared);
    }
  });
  afterAll(() => fixture.end());

  describe.each(THEMES)('%s', (_theme, attempts) => {
    test.each(attempts)('$name', (attempt) => {
      expectUnharmed(fixture, report, attempt);
    });
  });
});
