import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import {
  at,
  EscapeFixture,
  type EscapeServer,
  managed,
  ROOT_READ,
  SERVER_USERS,
} from '../support/escape-fixture.ts';

/** The device files of the host that a sandbox shows. No attempt may really change them: each sets what they already have. */
const DEVICES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((name) => `/dev/${name}`);

/** Tries to set the attributes that each mount point and each open file already has. Prints one line for each: where, device, results. */
const PROBE = `
import json, os, stat
paths = [line.split(' ')[4].encode().decode('unicode_escape') for line in open('/proc/self/mountinfo')]
for process in ('self', '1'):
    try: paths += ['/proc/%s/fd/%s' % (process, fd) for fd in os.listdir('/proc/%s/fd' % process)]
    except OSError: pass
def attempt(change):
    try: change()
    except OSError as error: return error.strerror
    return 'changed'
for path in dict.fromkeys(paths):
    try: s = os.stat(path)
    except OSError: continue
    results = [
        attempt(lambda: os.chmod(path, stat.S_IMODE(s.st_mode))),
        attempt(lambda: os.utime(path, ns=(s.st_atime_ns, s.st_mtime_ns))),
        attempt(lambda: os.chown(path, s.st_uid, s.st_gid)),
        attempt(lambda: os.setxattr(path, 'user.escaped', b'')),
    ]
    print(json.dumps([path, '%d:%d' % (os.major(s.st_dev), os.minor(s.st_dev)), stat.S_ISCHR(s.st_mode), results]))
`;
type Probed = readonly [path: string, device: string, isDevice: boolean, results: readonly string[]];

/** The file systems of the host. A sandbox also has some of its own, whose files are not those of the host. */
function hostFileSystems(): Set<string> {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
  return new Set(lines.map((line) => line.split(' ')[2]!));
}

const POLICIES: Readonly<Record<string, (fixture: EscapeFixture) => SandboxRequest>> = {
  'that only reads': () => managed([ROOT_READ]),
  'with a writable workspace': (fixture) => fixture.profile(),
  'with the network of the host': (fixture) =>
    managed([ROOT_READ, at(fixture.workspace, 'write')], { network: 'enabled' }),
  'with few visible files': (fixture) =>
    managed([
      { path: { type: 'special', value: { kind: 'minimal' } }, access: 'read' },
      at(fixture.workspace, 'write'),
    ]),
  'with hidden and protected files': (fixture) =>
    fixture.profile(
      at(join(fixture.workspace, 'denied'), 'deny'),
      at(join(fixture.workspace, 'read'), 'read'),
    ),
  'with hidden devices': (fixture) => fixture.profile(at('/dev', 'deny')),
};

describe.each(SERVER_USERS)('on a server run by %s, a sandbox', (user) => {
  let fixture: EscapeFixture;
  let server: EscapeServer;
  beforeAll(async () => {
    fixture = new EscapeFixture(user);
    for (const name of ['.git/config', 'denied/file', 'read/file']) fixture.file(`workspace/${name}`);
    server = await fixture.serve();
  });
  afterAll(() => fixture.end());

  const isWritable = (path: string) =>
    path === fixture.workspace ||
    (path.startsWith(`${fixture.workspace}/`) && !/\/(?:\.git|read)$/.test(path));

  const probe = async (processId: string, sandbox: SandboxRequest): Promise<Probed[]> => {
    const argv = ['/usr/bin/python3', '-c', PROBE];
    const env = { PATH: '/usr/bin:/bin' };
    await server.client.call('process/start', { processId, argv, cwd: 'file:///', env, tty: false, sandbox });
    const events = await server.client.closedProcess(processId);
    expect([events.exitCode, events.text('stderr')]).toEqual([0, '']);
    return events
      .text('stdout')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Probed);
  };

  test.each(Object.keys(POLICIES))('%s lets no program change a file of the host', async (name) => {
    const sandbox = POLICIES[name]!(fixture);
    const host = hostFileSystems();
    const before = timesOfDevices();
    // The second may get a sandbox that was built before.
    for (const turn of [1, 2]) {
      const probed = await probe(`${name} ${turn}`, sandbox);
      const ofHost = probed.filter(([path, device]) => host.has(device) && !isWritable(path));
      expect(ofHost.filter(([, , , results]) => results.includes('changed'))).toEqual([]);
      const devices = ofHost.filter(([, , isDevice]) => isDevice).map(([path]) => path);
      if (!name.includes('hidden devices')) {
        expect(devices).toEqual(expect.arrayContaining([...DEVICES, '/proc/self/fd/0']));
      }
    }
    expect(timesOfDevices()).toEqual(before);
  });

  test.each(Object.keys(POLICIES))('%s lets no file request change a file of the host', async (name) => {
    const sandbox = POLICIES[name]!(fixture);
    const before = timesOfDevices();
    for (const path of [
      ...DEVICES,
      '/dev',
      '/dev/pts',
      '/dev/shm',
      '/proc',
      '/proc/sys',
      '/',
      '/etc',
      '/usr',
    ]) {
      const { mode, mtimeMs } = statSync(path);
      for (const change of [{ mode: mode & 0o777 }, { modifiedAtMs: Math.floor(mtimeMs) }]) {
        const outcome = await server.outcome('fs/setAttributes', {
          path: `file://${path}`,
          ...change,
          sandbox,
        });
        expect([path, outcome]).toEqual([path, expect.stringMatching(/^refused: /)]);
      }
    }
    expect(timesOfDevices()).toEqual(before);
  });

  test('still lets programs use the devices', async () => {
    const script =
      'echo x >/dev/null && head -c 5 /dev/zero | wc -c && head -c 6 /dev/urandom | wc -c && cat';
    const argv = ['sh', '-c', script];
    const env = { PATH: '/usr/bin:/bin' };
    const sandbox = fixture.profile();
    await server.client.call('process/start', {
      processId: 'uses',
      argv,
      cwd: 'file:///',
      env,
      tty: false,
      sandbox,
    });
    const events = await server.client.closedProcess('uses');
    expect([events.exitCode, events.text('stdout'), events.text('stderr')]).toEqual([0, '5\n6\n', '']);
  });
});

/** The kernel itself changes the times of terminals, and the self-test those of /dev/full. */
function timesOfDevices(): number[] {
  return ['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom'].map((path) => statSync(path).ctimeMs);
}
