import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Attempt,
  type AttemptReport,
  expectUnharmed,
  makeAttempts,
} from '../support/escape-attempts.ts';
import {
  EscapeFixture,
  type EscapeServer,
  NOBODY,
  SECRET,
  SERVER_USERS,
  UNTOUCHED,
} from '../support/escape-fixture.ts';
import { childrenOf, isAlive, processesWith } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

/** For attempts without an observable effect on the host. */
const refused = (_fixture: EscapeFixture, raised: string | null) => expect(raised).not.toBeNull();

/** `V` is a process of the host that belongs to the same user, `A` an address in it, `F` a descriptor of it, `S` the server. */
const KNOWN =
  "V, A, F, S = [int(os.environ[name]) for name in ('VICTIM', 'ADDRESS', 'DESCRIPTOR', 'SERVER')]\n";

const REACHING: readonly Attempt[] = [
  { name: 'killing a process', python: 'os.kill(V, signal.SIGKILL)' },
  { name: 'killing a group of processes', python: 'os.killpg(V, signal.SIGKILL)' },
  { name: 'stopping a process', python: 'os.kill(V, signal.SIGSTOP)' },
  { name: 'killing the server', python: 'os.kill(S, signal.SIGKILL)' },
  {
    name: 'killing every process there is',
    python:
      'if os.fork() == 0:\n    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(-1, signal.SIGURG); os._exit(0)\nos.wait()',
  },
  {
    name: 'killing by a queue of signals',
    python: 'syscall(129, V, 9, ctypes.create_string_buffer(struct.pack("iii", 9, 0, -1), 128))',
  },
  { name: 'killing by a descriptor of the process', python: 'syscall(424, syscall(434, V, 0), 9, 0, 0)' },
  {
    name: 'a descriptor of a descriptor',
    python: 'print(os.pread(syscall(438, syscall(434, V, 0), F, 0), 100, 0))',
  },
  { name: 'tracing a process', python: 'syscall(101, 16, V, 0, 0)', host: refused },
  { name: 'seizing a process', python: 'syscall(101, 0x4206, V, 0, 0)', host: refused },
  {
    name: 'reading the memory of a process',
    python:
      "buffer = ctypes.create_string_buffer(64)\nlocal = struct.pack('PL', ctypes.addressof(buffer), 64); remote = struct.pack('PL', A, 64)\nsyscall(310, V, local, 1, remote, 1, 0); print(buffer.raw)",
  },
  {
    name: 'writing the memory of a process',
    python:
      "text = ctypes.create_string_buffer(b'escaped')\nlocal = struct.pack('PL', ctypes.addressof(text), 7); remote = struct.pack('PL', A, 7)\nsyscall(311, V, local, 1, remote, 1, 0)",
  },
  {
    name: 'the memory of a process as a file',
    python:
      "f = open('/proc/%d/mem' % V, 'r+b', 0); f.seek(A); print(f.read(64)); f.seek(A); f.write(b'escaped')",
  },
  { name: 'the environment of a process', python: "show('/proc/%d/environ' % V)" },
  { name: 'the environment of the server', python: "show('/proc/%d/environ' % S)" },
  {
    name: 'the environment of all that can be seen',
    python:
      "for name in os.listdir('/proc'):\n    if name.isdigit() and int(name) != os.getpid():\n        try: show('/proc/' + name + '/environ')\n        except OSError: pass",
  },
  { name: 'a descriptor of a process', python: "show('/proc/%d/fd/%d' % (V, F))" },
  { name: 'the root of a process', python: "write('/proc/%d/root%s' % (V, T))" },
  { name: 'the directory of a process', python: "write('/proc/%d/cwd/%s' % (V, N))" },
  {
    name: 'the namespaces of a process',
    python:
      "for name in ('mnt', 'user'):\n    syscall(308, os.open('/proc/%d/ns/%s' % (V, name), os.O_RDONLY), 0)\nwrite(T)",
    host: refused,
  },
  { name: 'the priority of a process', python: 'os.setpriority(os.PRIO_PROCESS, V, 19)', host: refused },
  {
    name: 'the limits of a process',
    python: 'import resource; resource.prlimit(V, resource.RLIMIT_NOFILE, (0, 0))',
    host: refused,
  },
  { name: 'the processors of a process', python: 'os.sched_setaffinity(V, {0})', host: refused },
  { name: 'the score of a process', python: "write('/proc/%d/oom_score_adj' % V, '1000')", host: refused },
  {
    name: 'what processes there are',
    python:
      "seen = [int(name) for name in os.listdir('/proc') if name.isdigit()]\nif len(seen) > 20 or V in seen: print(seen)\nelse: raise OSError('none')",
    host: refused,
  },
  {
    name: 'the memory of the first process',
    python:
      "maps = open('/proc/1/maps').read()\nstart = int(maps.split('-')[0], 16); f = open('/proc/1/mem', 'r+b', 0); f.seek(start); f.write(b'x')\nwrite(T)",
  },
  {
    name: 'what else is open',
    python:
      "kinds = {os.readlink('/proc/self/fd/%s' % fd).split(':')[0] for fd in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/%s' % fd)}\nmore = kinds - {'pipe', '/dev/null', '/proc/%d/fd' % os.getpid()}\nif more: print(more)\nelse: raise OSError('none')",
    host: refused,
  },
  {
    name: 'what the first process has open',
    python:
      "for fd in os.listdir('/proc/1/fd'):\n    if int(fd) < 3: continue\n    link = os.readlink('/proc/1/fd/' + fd)\n    if 'eventfd' not in link: print('open', link); break\nelse: raise OSError('none')",
    host: refused,
  },
  {
    name: 'shared memory of System V',
    python:
      "i = checked(libc.shmget(int(os.environ['KEY']), 0, 0)); libc.shmat.restype = ctypes.c_void_p; print(ctypes.string_at(libc.shmat(i, None, 0), 32))",
    host: refused,
  },
  { name: 'a terminal of another process', python: "write(os.environ['TERMINAL'], 'escaped\\n')" },
  {
    name: 'typing into the terminal of another process',
    python:
      "import fcntl, termios; fcntl.ioctl(os.open(os.environ['TERMINAL'], os.O_RDWR), termios.TIOCSTI, b'x')",
    host: refused,
  },
  {
    name: 'all terminals',
    python:
      "opened = []\nfor name in os.listdir('/dev/pts'):\n    if name == 'ptmx': continue\n    os.write(os.open('/dev/pts/' + name, os.O_WRONLY), P); opened.append(name)\nif not opened: raise OSError('none')",
    host: refused,
  },
  {
    name: 'a set-user-id program',
    python:
      'subprocess.run([O + \'/set-user-id\', \'-c\', \'open("%s/of-root", "w").write("escaped")\' % O])',
    host: (fixture: EscapeFixture) => expect(fixture.read('outside/of-root')).toBe(UNTOUCHED),
  },
  {
    name: 'becoming root',
    python: "os.setresuid(0, 0, 0); os.setgroups([]); write(O + '/of-root')",
    host: (fixture: EscapeFixture) => expect(fixture.read('outside/of-root')).toBe(UNTOUCHED),
  },
  {
    name: 'the su program',
    python: "subprocess.run(['/bin/su', '-c', 'echo escaped > ' + N], stdin=subprocess.DEVNULL, timeout=1)",
  },
  {
    name: 'more capabilities',
    python:
      "syscall(126, struct.pack('Ii', 0x20080522, 0), struct.pack('IIIIII', *([0xffffffff] * 6))); write(T)",
    host: refused,
  },
  {
    name: 'the filter taken away',
    python: 'syscall(157, 22, 0, 0, 0, 0); socket.socket(socket.AF_INET)',
    host: refused,
  },
].map((attempt) => ({ ...attempt, python: KNOWN + attempt.python }));

describe.runIf(process.arch === 'x64').each(SERVER_USERS)(
  'a program of a server run by %s does not get out by',
  (user) => {
    let fixture: EscapeFixture;
    let server: EscapeServer;
    let victim: Victim;
    const report: Record<string, AttemptReport[string]> = {};

    beforeAll(async () => {
      fixture = new EscapeFixture(user);
      server = await fixture.serve();
      victim = await Victim.start(fixture);
      // Root may still write to files that root owns.
      fixture.file('outside/of-root');
      const program = join(fixture.outside, 'set-user-id');
      copyFileSync('/usr/bin/python3', program);
      chmodSync(program, 0o4755);
      const env = { ...victim.env, SERVER: String(server.process.pid), KEY: '1' };
      Object.assign(report, await makeAttempts(fixture, server, REACHING, fixture.profile(), { env }));
    });
    afterAll(async () => {
      await victim.end();
      await fixture.end();
    });

    test.each(REACHING)('$name', (attempt) => expectUnharmed(fixture, report, attempt));

    test('changing any other process', async () => {
      expect(isAlive(server.process.pid!)).toBe(true);
      expect(await victim.said()).toEqual([`asked ${SECRET}`]);
      expect(readFileSync(`/proc/${victim.pid}/oom_score_adj`, 'utf8')).not.toBe('1000\n');
    });

    test('typing into its own terminal', async () => {
      const script =
        "import fcntl, os, termios\nfor byte in b'escaped\\n':\n    fcntl.ioctl(0, termios.TIOCSTI, bytes([byte]))";
      const ran = await server.run(['/usr/bin/python3', '-c', script], fixture.profile(), { tty: true });
      expect(ran.stdout).toContain('PermissionError');
      expect(ran.exitCode).toBe(1);
    });
  },
);

describe.each(SERVER_USERS)('leftovers of a program of a server run by %s', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    server = await fixture.serve();
  });
  afterAll(() => fixture.end());

  test.each([
    ['a child in the background', (sleep: string) => `${sleep} &`],
    ['a session of its own', (sleep: string) => `setsid ${sleep} </dev/null >/dev/null 2>&1 &`],
    ['a daemon', (sleep: string) => `(setsid sh -c '${sleep} & ${sleep} &' </dev/null >/dev/null 2>&1 &)`],
    ['one that ignores signals', (sleep: string) => `(trap '' TERM HUP INT; ${sleep}) &`],
    [
      'one in a nested namespace',
      (sleep: string) => `(unshare -Upf ${sleep} || ${sleep}) </dev/null >/dev/null 2>&1 &`,
    ],
  ])('%s ends with it', async (name, leaving) => {
    const mark = `31${String(process.pid).padStart(7, '0')}.${name.length}${user.length}`;
    const script = `${leaving(`sleep ${mark}`)}\nwhile ! grep -qa '^sleep.${mark}' /proc/[0-9]*/cmdline; do :; done; exit 3`;
    const ran = await server.run(['/bin/sh', '-c', script], fixture.profile());
    expect(ran.exitCode).toBe(3);
    await waitFor('all to be gone', () => processesWith(`sleep ${mark}`).length === 0);
  });

  test('no process writes to the workspace later', async () => {
    const late = join(fixture.workspace, 'late');
    await server.run(
      ['/bin/sh', '-c', `setsid sh -c 'sleep 0.3; echo escaped > ${late}' & exit`],
      fixture.profile(),
    );
    // A leftover process would have written the file while this program sleeps.
    await server.run(['/bin/sleep', '0.5'], fixture.profile());
    expect(existsSync(late)).toBe(false);
  });

  test('a terminated program and its sandbox leave nothing behind', async () => {
    const before = childrenOf(server.process.pid!).length;
    const started = await Promise.all(
      Array.from({ length: 8 }, () =>
        server.start(['/bin/sh', '-c', 'setsid sleep 1000 & echo up; sleep 1000'], fixture.profile()),
      ),
    );
    await Promise.all(started.map((id) => server.said(id, 'up')));
    await Promise.all(started.map((id) => server.terminate(id)));
    await waitFor('all to be gone', () => childrenOf(server.process.pid!).length <= before);
    expect(fixture.names('workspace')).toEqual([]);
  });

  test('two programs do not see each other', async () => {
    const first = await server.start(
      ['/bin/sh', '-c', 'echo $$ up; read line; echo ended $line'],
      fixture.profile(),
      { env: { SIBLING: SECRET } },
    );
    await server.said(first, 'up');
    const second = await server.run(
      ['/bin/sh', '-c', 'kill -9 -1; kill -9 1; cat /proc/*/environ'],
      fixture.profile(),
    );
    expect(second.stdout + second.stderr).not.toContain(SECRET);
    await server.client.call('process/write', {
      processId: first,
      chunk: Buffer.from('well\n').toString('base64'),
      writeId: '1',
    });
    expect(await server.ended(first)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('ended well'),
    });
  });
});

/** A process of the host that belongs to the server's user. */
class Victim {
  readonly pid: number;
  readonly env: Readonly<Record<string, string>>;
  readonly #process: ChildProcess;
  readonly #lines: string[];

  private constructor(process: ChildProcess, lines: string[], where: VictimAddresses) {
    this.#process = process;
    this.#lines = lines;
    this.pid = where.pid;
    this.env = {
      VICTIM: String(where.pid),
      ADDRESS: String(where.address),
      DESCRIPTOR: String(where.fd),
      TERMINAL: where.terminal,
    };
  }

  static async start(fixture: EscapeFixture): Promise<Victim> {
    const script = fileURLToPath(new URL('../fixtures/victim.py', import.meta.url));
    const child = spawn('/usr/bin/python3', [script], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { VICTIM_SECRET: SECRET },
      detached: true,
      ...(fixture.user === 'nobody' && { uid: NOBODY, gid: NOBODY }),
    });
    const reader = createInterface({ input: child.stdout });
    const [first] = (await once(reader, 'line')) as [string];
    const lines: string[] = [];
    reader.on('line', (line) => lines.push(line));
    return new Victim(child, lines, JSON.parse(first) as VictimAddresses);
  }

  /** Its output so far, and its answer to a request that shows that it is unchanged. */
  async said(): Promise<string[]> {
    this.#process.stdin!.write('\n');
    await waitFor('the victim to answer', () => this.#lines.some((line) => line.startsWith('asked')));
    return this.#lines;
  }

  async end(): Promise<void> {
    const exited = once(this.#process, 'exit');
    this.#process.stdin!.end();
    await exited;
  }
}

interface VictimAddresses {
  readonly pid: number;
  readonly address: number;
  readonly fd: number;
  readonly terminal: string;
}
