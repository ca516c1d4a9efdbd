import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
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
  EscapeFixture,
  type EscapeServer,
  managed,
  NOBODY,
  SECRET,
  SERVER_USERS,
} from '../support/escape-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

/** Where version 2 of the control groups is mounted. Null when it is not, or when this user may not use it. */
const CONTROL_GROUPS = controlGroups();

/** Names that stand for mounts of the kernel's file systems at other paths. The test mounts them in the workspace. */
const MOUNTS = `
mount --bind /sys "$W/system"
mount --rbind /sys "$W/all of it"
mount --bind /sys/kernel "$W/kernel"
mount --bind ${CONTROL_GROUPS ?? '/sys'} "$W/groups"
mount -t proc proc "$W/processes"
`;
const MOUNT_POINTS = ['system', 'all of it', 'kernel', 'groups', 'processes'];

const refused = (_fixture: EscapeFixture, raised: string | null) => expect(raised).not.toBeNull();

const EVERYWHERE = "['/sys', W + '/system', W + '/all of it', W + '/kernel', W + '/groups']";

const ATTEMPTS: readonly Attempt[] = [
  {
    name: 'a file of the kernel that can be written',
    python: `
found = []
for root in ${EVERYWHERE}:
    for folder, folders, names in os.walk(root):
        found += [path for path in [folder] + [folder + '/' + name for name in names] if os.access(path, os.W_OK) and not os.path.islink(path)]
        if folder.count('/') - root.count('/') > 3: folders[:] = []
if not found: raise OSError('none')
print(found[:20])`,
    host: refused,
  },
  {
    name: 'a setting of the memory',
    python: `
succeeded = False
for root in ('/sys/kernel', W + '/system/kernel', W + '/kernel'):
    for name in ('mm/ksm/sleep_millisecs', 'mm/transparent_hugepage/khugepaged/scan_sleep_millisecs'):
        try: value = open(root + '/' + name).read()
        except OSError: continue
        try: write(root + '/' + name, value); print(root, name)
        except OSError: continue
        succeeded = True
if not succeeded: raise OSError('none')`,
    host: refused,
  },
  {
    name: 'a parameter of a module',
    python: `
succeeded = False
for module in sorted(os.listdir('/sys/module')):
    folder = '/sys/module/' + module + '/parameters'
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        try: os.close(os.open(folder + '/' + name, os.O_WRONLY))
        except OSError: continue
        succeeded = True
if not succeeded: raise OSError('none')`,
    host: refused,
  },
  {
    name: 'a control group of its own',
    python: `
succeeded = False
for root in [os.environ['GROUPS'], W + '/groups', W + '/all of it' + os.environ['GROUPS'][4:]]:
    try: os.mkdir(root + '/' + os.environ['GROUP'] + '/made')
    except OSError: continue
    succeeded = True
if not succeeded: raise OSError('none')`,
    host: refused,
  },
  {
    name: 'the end of a process by its control group',
    python: `
succeeded = False
for root in [os.environ['GROUPS'], W + '/groups', W + '/all of it' + os.environ['GROUPS'][4:]]:
    try: write(root + '/' + os.environ['GROUP'] + '/cgroup.kill', '1')
    except OSError: continue
    succeeded = True
if not succeeded: raise OSError('none')`,
    host: refused,
  },
  {
    name: 'moving itself to another control group',
    python: `
succeeded = False
for root in [os.environ['GROUPS'], W + '/groups']:
    try: write(root + '/' + os.environ['GROUP'] + '/cgroup.procs', str(os.getpid()))
    except OSError: continue
    succeeded = True
if not succeeded: raise OSError('none')`,
    host: refused,
  },
  {
    name: 'settings of the kernel in a second /proc',
    python: "write(W + '/processes/sys/kernel/core_pattern', open('/proc/sys/kernel/core_pattern').read())",
    host: refused,
  },
  {
    name: 'processes of the host in a second /proc',
    python: "show(W + '/processes/' + os.environ['BYSTANDER'] + '/cmdline')",
    host: refused,
  },
];

describe.runIf(process.getuid?.() === 0).each(SERVER_USERS)(
  'the file systems of the kernel are read-only for programs of a server run by %s',
  (user) => {
    let fixture: EscapeFixture;
    let server: EscapeServer;
    let bystander: ChildProcess;
    let group: string | null = null;

    beforeAll(async () => {
      fixture = new EscapeFixture(user);
      for (const name of MOUNT_POINTS) fixture.directory(`workspace/${name}`);
      fixture.directory('denied');
      server = await fixture.serve([], { W: fixture.workspace }, MOUNTS);
      bystander = spawn('/bin/sh', ['-c', 'read line', SECRET], { stdio: ['pipe', 'ignore', 'ignore'] });
      if (CONTROL_GROUPS !== null)
        group = newGroup(basename(fixture.path), bystander.pid!, user === 'nobody');
    });
    afterAll(async () => {
      const ended = once(bystander, 'exit');
      bystander.stdin!.end();
      if (bystander.exitCode === null && bystander.signalCode === null) await ended;
      if (group !== null) {
        const path = group;
        await waitFor('an empty group', () => readFileSync(join(path, 'cgroup.procs'), 'utf8') === '');
        rmdirSync(path);
      }
      await fixture.end();
    });

    describe.each([
      [
        'that write everywhere but to one directory',
        () => [at('/', 'write'), at(join(fixture.path, 'denied'), 'deny')],
      ],
      [
        'that name these file systems',
        () => [
          at('/', 'read'),
          ...['/sys', fixture.workspace, ...MOUNT_POINTS.map((name) => join(fixture.workspace, name))].map(
            (path) => at(path, 'write'),
          ),
        ],
      ],
      ['that write to a directory around them', () => [at('/', 'read'), at(fixture.workspace, 'write')]],
    ] as const)('%s', (_which, entries) => {
      const report: Record<string, AttemptReport[string]> = {};
      beforeAll(async () => {
        const env = {
          GROUPS: CONTROL_GROUPS ?? '/sys/none',
          GROUP: basename(fixture.path),
          BYSTANDER: String(bystander.pid),
        };
        const sandbox = managed([...entries()]);
        Object.assign(report, await makeAttempts(fixture, server, ATTEMPTS, sandbox, { env }));
      });

      test.each(ATTEMPTS)('$name', (attempt) => {
        expectUnharmed(fixture, report, attempt);
        expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
        if (group !== null) expect(readdirSync(group)).not.toContain('made');
      });

      test('and are readable', async () => {
        const script = 'cat /sys/kernel/mm/*/enabled /sys/devices/system/cpu/online; ls "$0/system" | wc -l';
        const { exitCode, stdout } = await server.run(
          ['/bin/sh', '-c', script, fixture.workspace],
          managed([...entries()]),
        );
        expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/\d\n[1-9]\d*\n$/)]);
      });
    });
  },
);

function controlGroups(): string | null {
  const line = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((one) => one.includes(' - cgroup2 '));
  return line === undefined || process.getuid?.() !== 0 ? null : line.split(' ')[4]!;
}

/** Puts a process into a new control group, which the server's user may manage. */
function newGroup(name: string, pid: number, isGiven: boolean): string {
  const path = join(CONTROL_GROUPS!, name);
  mkdirSync(path);
  writeFileSync(join(path, 'cgroup.procs'), String(pid));
  if (isGiven)
    for (const file of ['.', 'cgroup.procs', 'cgroup.kill']) chownSync(join(path, file), NOBODY, NOBODY);
  return path;
}
