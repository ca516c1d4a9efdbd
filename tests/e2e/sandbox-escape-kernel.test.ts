import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Attempt,
  type AttemptReport,
  expectUnharmed,
  makeAttempts,
  slug,
} from '../support/escape-attempts.ts';
import {
  at,
  EscapeFixture,
  type EscapeServer,
  SECRET,
  SERVER_USERS,
  UNTOUCHED,
} from '../support/escape-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

/** For attempts without an observable effect on the host. */
const refused = (_fixture: EscapeFixture, raised: string | null) => expect(raised).not.toBeNull();
const gitIsWhole = (fixture: EscapeFixture) => {
  expect(fixture.names('workspace/.git')).toEqual(['config']);
  expect(fixture.read('workspace/.git/config')).toBe(UNTOUCHED);
};

/** Gains capabilities in new namespaces, which every user may do. */
const IN_NAMESPACES = 'checked(libc.unshare(0x10020000))\n';

const REMOUNT = "checked(libc.mount(b'none', b'/', None, 0x1020, None)); write(T)";
const UNMOUNT = "checked(libc.umount2((W + '/.git').encode(), 2)); write(W + '/.git/config')";
const BIND = 'checked(libc.mount(W.encode(), O.encode(), None, 0x1000, None)); write(T)';
const UNCOVER = "checked(libc.umount2((W + '/denied').encode(), 2)); show(W + '/denied/file')";
const NEW_PROC =
  "os.mkdir(W + '/p'); checked(libc.mount(b'proc', (W + '/p').encode(), b'proc', 0, None)); write(W + '/p/sys/kernel/core_pattern')";
const TREE =
  "tree = syscall(428, -100, (O + '\\0').encode(), 1); syscall(442, tree, b'\\0', 0x1000, struct.pack('QQQQ', 0, 1, 0, 0), 32); os.open(os.path.basename(N), os.O_CREAT | os.O_WRONLY, dir_fd=tree)";
const FILE_SYSTEM =
  "fs = syscall(430, b'tmpfs\\0', 0); syscall(431, fs, 6, 0, 0, 0); mount = syscall(432, fs, 0, 0); syscall(429, mount, b'\\0', -100, (W + '/.git\\0').encode(), 4); write(W + '/.git/config')";
const PIVOT = 'syscall(155, W.encode(), W.encode()); write(T)';

const MOUNTS: readonly Attempt[] = [
  ...[
    { name: 'remounting the disk', python: REMOUNT },
    { name: 'unmounting a protected directory', python: UNMOUNT, host: gitIsWhole },
    { name: 'uncovering a denied directory', python: UNCOVER },
    { name: 'mounting over a directory', python: BIND },
    { name: 'a copy of a mount with other attributes', python: TREE },
    { name: 'a new file system over a protected directory', python: FILE_SYSTEM, host: gitIsWhole },
    { name: 'another root', python: PIVOT },
    { name: 'another view of processes', python: NEW_PROC },
  ].flatMap((attempt) => [
    attempt,
    {
      ...attempt,
      name: `${attempt.name} from a nested namespace`,
      python: IN_NAMESPACES + attempt.python.replace("'/p'", "'/q'"),
    },
  ]),
  {
    name: 'a root of its own, left by way of a descriptor',
    python:
      "checked(libc.unshare(0x10000000)); d = os.open('/', os.O_RDONLY); os.mkdir(W + '/jail'); os.chroot(W + '/jail'); os.fchdir(d)\nfor _ in range(40): os.chdir('..')\nos.chroot('.'); write(T)",
  },
  { name: 'another namespace of mounts', python: 'checked(libc.unshare(0x20000)); write(T)' },
  {
    name: 'the namespaces of the first process',
    python:
      "for name in ('user', 'mnt', 'pid', 'net', 'ipc'):\n    syscall(308, os.open('/proc/1/ns/' + name, os.O_RDONLY), 0)\nwrite(T)",
    host: refused,
  },
  {
    name: 'the namespaces of the parent process',
    python: "syscall(308, os.open('/proc/%d/ns/mnt' % os.getppid(), os.O_RDONLY), 0); write(T)",
    host: refused,
  },
  {
    name: 'a handle of a file',
    python:
      "buffer = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128)); mount = ctypes.c_int()\nsyscall(303, -100, T.encode(), buffer, ctypes.byref(mount), 0)\nwrite('/proc/self/fd/%d' % syscall(304, os.open('/', os.O_RDONLY), buffer, os.O_RDWR))",
  },
];

const CALLS: readonly Attempt[] = [
  { name: 'a ring of requests', python: 'syscall(425, 8, ctypes.create_string_buffer(248))', host: refused },
  {
    name: 'keys of the kernel',
    python: "syscall(248, b'user\\0', b'escape\\0', b'x', 1, -3)",
    host: refused,
  },
  { name: 'keys of the session', python: 'syscall(250, 0, -3, 1)', host: refused },
  { name: 'a request for a key', python: "syscall(249, b'user\\0', b'escape\\0', 0, -3)", host: refused },
  {
    name: 'a program in the kernel',
    python: "syscall(321, 0, struct.pack('IIII', 1, 4, 4, 1) + bytes(112), 128)",
    host: refused,
  },
  {
    name: 'watching the kernel',
    python: "syscall(298, struct.pack('II', 1, 128) + bytes(120), 0, -1, -1, 0)",
    host: refused,
  },
  { name: 'faults of memory', python: 'syscall(323, 0x80001)', host: refused },
  { name: 'a module', python: "syscall(175, b'x', 1, b'\\0')", host: refused },
  {
    name: 'a module from a file',
    python: "syscall(313, os.open('/bin/true', os.O_RDONLY), b'\\0', 0)",
    host: refused,
  },
  { name: 'another kernel', python: 'syscall(246, 0, 0, 0, 0)', host: refused },
  { name: 'accounting', python: 'syscall(163, 0)', host: refused },
  {
    name: 'swap space',
    python: "write(W + '/swap'); syscall(167, (W + '/swap\\0').encode(), 0)",
    host: refused,
  },
  { name: 'restarting the machine', python: 'syscall(169, 0xfee1dead, 672274793, 0, 0)', host: refused },
  {
    name: 'the time of the machine',
    python: 'time.clock_settime(time.CLOCK_REALTIME, 1)',
    host: () => expect(Date.now()).toBeGreaterThan(1_600_000_000_000),
  },
  {
    name: 'the name of the machine',
    python: "socket.sethostname('escaped')",
    host: () => expect(hostname()).not.toBe('escaped'),
  },
  { name: 'ports of devices', python: 'syscall(172, 3)', host: refused },
  { name: 'the log of the kernel', python: 'syscall(103, 5, 0, 0)', host: refused },
  {
    name: 'calls of 32 bits',
    python:
      "code = mmap.mmap(-1, 4096, prot=7); code.write(bytes.fromhex('b866010000bb02000000b901000000ba00000000cd80c3'))\nif ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() < 0: raise OSError('refused')",
    host: refused,
  },
  { name: 'calls of the x32 kind', python: 'syscall(0x40000000 + 41, 2, 1, 0)', host: refused },
  {
    name: 'a program in memory',
    python:
      "fd = os.memfd_create('x'); os.write(fd, open('/bin/sh', 'rb').read()); subprocess.run(['/proc/self/fd/%d' % fd, '-c', 'echo escaped > ' + T + '; echo escaped > ' + N], pass_fds=[fd])",
  },
  {
    name: 'settings of the kernel',
    python: `
opened = []
for folder, folders, names in os.walk('/proc'):
    folders[:] = [name for name in folders if not (folder == '/proc' and (name.isdigit() or name in ('self', 'thread-self')))]
    for name in names:
        try: os.close(os.open(folder + '/' + name, os.O_WRONLY | os.O_NONBLOCK)); opened.append(folder + '/' + name)
        except OSError: pass
opened = [path for path in opened if not path.startswith('/proc/pressure/')]
if opened: print(opened)
else: raise OSError('none')`,
    host: refused,
  },
  {
    name: 'the place for core dumps',
    python: "write('/proc/sys/kernel/core_pattern', '|/bin/escaped')",
    host: () => expect(readFileSync('/proc/sys/kernel/core_pattern', 'utf8')).not.toContain('escaped'),
  },
  {
    name: 'the trigger for requests to the system',
    python: "write('/proc/sysrq-trigger', 'h')",
    host: refused,
  },
  {
    name: 'settings of devices',
    python:
      "opened = []\nfor path in ('/sys/kernel/uevent_helper', '/sys/power/state', '/sys/fs/cgroup/cgroup.procs', '/sys/kernel/mm/ksm/run', '/sys/kernel/profiling'):\n    try: os.close(os.open(path, os.O_WRONLY)); opened.append(path)\n    except OSError: pass\nif not opened: raise OSError('none')",
    host: refused,
  },
];

/** The name of the attempt identifies what arrives. */
const SOCKETS: readonly Attempt[] = [
  {
    name: 'a connection',
    python: "socket.create_connection(('127.0.0.1', int(os.environ['TCP'])), 2).sendall(P)",
  },
  {
    name: 'a connection of version 6',
    python: "socket.create_connection(('::1', int(os.environ.get('TCP6', '1'))), 2).sendall(P)",
  },
  {
    name: 'a connection to this server',
    python: "socket.create_connection(('127.0.0.1', int(os.environ['SERVER'])), 2)",
    host: refused,
  },
  {
    name: 'a packet',
    python:
      "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(P, ('127.0.0.1', int(os.environ['UDP'])))",
  },
  {
    name: 'a local connection',
    python: "s = socket.socket(socket.AF_UNIX); s.connect(O + '/stream'); s.sendall(P)",
  },
  {
    name: 'a local packet',
    python: "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(P, O + '/datagram')",
  },
  {
    name: 'a local packet with its own address',
    python: "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([P], [], 0, O + '/datagram')",
  },
  {
    name: 'a local raw packet with its own address',
    python: "socket.socket(socket.AF_UNIX, socket.SOCK_RAW).sendmsg([P], [], 0, O + '/datagram')",
  },
  {
    name: 'a packet from one of a pair',
    python:
      "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendmsg([P], [], 0, O + '/datagram')",
  },
  {
    name: 'a packet from the other of a pair',
    python:
      "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.close(); b.sendmsg([P], [], 0, O + '/datagram')",
  },
  {
    name: 'a descriptor in a local packet',
    python:
      "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([P], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack('i', 1))], 0, O + '/datagram')",
  },
  {
    name: 'a stream with an address',
    python: "socket.socket(socket.AF_UNIX).sendmsg([P], [], 0, O + '/stream')",
  },
  {
    name: 'a sequence of packets',
    python: "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).sendmsg([P], [], 0, O + '/seqpacket')",
  },
  {
    name: 'an abstract connection',
    python:
      "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + os.environ['ABSTRACT'] + '-stream'); s.sendall(P)",
  },
  {
    name: 'an abstract packet',
    python:
      "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([P], [], 0, '\\0' + os.environ['ABSTRACT'] + '-datagram')",
  },
  {
    name: 'many packets in one call',
    python:
      's = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); syscall(307, s.fileno(), ctypes.create_string_buffer(64), 1, 0)',
    host: refused,
  },
  {
    name: 'a connection from a nested network',
    python:
      "checked(libc.unshare(0x50000000)); socket.create_connection(('127.0.0.1', int(os.environ['TCP'])), 2).sendall(P)",
  },
  ...[
    ['the kernel by netlink', 16, 3],
    ['packets of the link', 17, 3],
    ['the host of this machine', 40, 1],
    ['ciphers of the kernel', 38, 5],
    ['bluetooth', 31, 3],
    ['a bus of cars', 29, 3],
    ['clusters', 30, 2],
    ['express data paths', 44, 3],
    ['an old network', 4, 2],
  ].map(([name, family, type]) => ({
    name: String(name),
    python: `syscall(41, ${family}, ${type}, 0)`,
    host: refused,
  })),
  {
    name: 'a listener',
    python: "s = socket.socket(socket.AF_UNIX); s.bind(W + '/socket'); s.listen()",
    host: refused,
  },
];

// The call numbers are those of x64.
describe.runIf(process.arch === 'x64').each(SERVER_USERS)(
  'a program of a server run by %s does not get out by',
  (user) => {
    let fixture: EscapeFixture;
    let server: EscapeServer;
    const report: Record<string, AttemptReport[string]> = {};

    beforeAll(async () => {
      fixture = new EscapeFixture(user);
      server = await fixture.serve();
      fixture.file('workspace/.git/config');
      fixture.file('workspace/denied/file', SECRET);
      const sandbox = fixture.profile(at(join(fixture.workspace, 'denied'), 'deny'));
      const all = [...MOUNTS, ...CALLS];
      Object.assign(report, await makeAttempts(fixture, server, all, sandbox, { cwd: fixture.workspace }));
    });
    afterAll(() => fixture.end());

    test.each(MOUNTS)('$name', (attempt) => expectUnharmed(fixture, report, attempt));
    test.each(CALLS)('$name', (attempt) => expectUnharmed(fixture, report, attempt));
  },
);

describe.runIf(process.arch === 'x64').each(SERVER_USERS)(
  'no network for a program of a server run by %s',
  (user) => {
    let fixture: EscapeFixture;
    let server: EscapeServer;
    let listeners: Listeners;

    beforeAll(async () => {
      fixture = new EscapeFixture(user);
      server = await fixture.serve();
      listeners = await Listeners.start(fixture.outside);
    });
    afterAll(async () => {
      await listeners.end();
      await fixture.end();
    });

    const inside = () => fixture.profile();
    const filtered = () =>
      ({
        permissions: { type: 'external', network: 'restricted' },
        windowsSandboxLevel: 'disabled',
      }) as const;

    describe.each([
      ['in a tree of its own', inside],
      ['with all files', filtered],
    ] as const)('%s', (_where, sandbox) => {
      const report: Record<string, AttemptReport[string]> = {};
      let arrived: readonly string[] = [];
      beforeAll(async () => {
        const env = { ...listeners.env, SERVER: new URL(server.url).port };
        Object.assign(report, await makeAttempts(fixture, server, SOCKETS, sandbox(), { env }));
        arrived = await listeners.arrivedBeforeNow();
      });

      test.each(SOCKETS)('$name', (attempt) => {
        expectUnharmed(fixture, report, attempt);
        expect(arrived.filter((line) => line.endsWith(` ${slug(attempt.name)}`))).toEqual([]);
      });

      test('nothing else', () => expect(arrived).toEqual([]));
    });
  },
);

/** Sockets of the host that report what arrives. */
class Listeners {
  readonly env: Readonly<Record<string, string>>;
  readonly #process: ChildProcess;
  readonly #lines: string[];
  readonly #port: number;
  #looked = 0;

  private constructor(process: ChildProcess, lines: string[], port: number, env: Record<string, string>) {
    this.#process = process;
    this.#lines = lines;
    this.#port = port;
    this.env = env;
  }

  static async start(folder: string): Promise<Listeners> {
    const script = fileURLToPath(new URL('../fixtures/listeners.py', import.meta.url));
    const child = spawn('/usr/bin/python3', [script, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    const reader = createInterface({ input: child.stdout });
    const [first] = (await once(reader, 'line')) as [string];
    const { ports, abstract } = JSON.parse(first) as { ports: Record<string, number>; abstract: string };
    const lines: string[] = [];
    reader.on('line', (line) => lines.push(line));
    const numbers = Object.entries(ports).map(([name, port]) => [name.toUpperCase(), String(port)]);
    return new Listeners(child, lines, ports.tcp!, { ...Object.fromEntries(numbers), ABSTRACT: abstract });
  }

  /** Connects last, to know that everything that sandboxed programs have sent was reported. */
  async arrivedBeforeNow(): Promise<string[]> {
    const last = `look ${this.#looked}`;
    connect(this.#port, '127.0.0.1').end(last);
    await waitFor('the connection of the test', () => this.#lines.at(-1) === `tcp ${last}`);
    const arrived = this.#lines.slice(this.#looked, -1);
    this.#looked = this.#lines.length;
    return arrived;
  }

  async end(): Promise<void> {
    const exited = once(this.#process, 'exit');
    this.#process.kill();
    await exited;
  }
}
