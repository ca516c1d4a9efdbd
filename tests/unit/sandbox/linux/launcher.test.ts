import { constants } from 'node:os';
import { describe, expect, test } from 'vitest';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import {
  idleImage,
  type Launch,
  LaunchReport,
  launcherImage,
} from '../../../../src/sandbox/linux/launcher.ts';
import { seccompFilter } from '../../../../src/sandbox/linux/seccomp.ts';
import { type MadeCall, runArm64 } from './arm64-machine.ts';

const BASE = 0x400000;
const EVERYTHING: Launch = {
  path: '/bin/prögram',
  argv: ['zero', '', 'ärg'],
  env: { A: 'b c', Ü: 'ä', '': 'nameless' },
  descriptor: 7,
  devices: [],
  stdin: null,
  session: 'withTerminal',
  filter: seccompFilter('restricted', 'arm64'),
  listeners: null,
  mounts: [],
  certain: false,
  cwd: null,
  report: null,
};
/** Numbers of system calls on arm64. */
const IOCTL = 29;
const MOUNT = 40;
const CHDIR = 49;
const OPENAT = 56;
const CLOSE = 57;
const WRITE = 64;
const CAPSET = 91;
const EXIT_GROUP = 94;
const SETSID = 157;
const STATX = 291;
const PRCTL = 167;
const EXECVE = 221;
const SECCOMP = 277;
const SOCKET = 198;
const BIND = 200;
const LISTEN = 201;
const SENDMSG = 211;
const DUP3 = 24;
const { ENOENT, EACCES, ENOEXEC, E2BIG, EIO } = constants.errno;

describe('the code for arm64', () => {
  const image = launcherImage(EVERYTHING, 'arm64');
  const textAt = (address: number) =>
    image.toString('utf8', address - BASE, image.indexOf(0, address - BASE));
  const table = (address: number): string[] => {
    const pointer = Number(image.readBigUInt64LE(address - BASE));
    return pointer === 0 ? [] : [textAt(pointer), ...table(address + 8)];
  };

  /** The calls until the exit. Each returns 0 unless `answers` says otherwise. */
  function calls(of: Buffer, answers: Readonly<Record<number, number>> = {}): MadeCall[] {
    const made: MadeCall[] = [];
    runArm64(of, BASE, (call) => {
      made.push(call);
      return call.nr === EXIT_GROUP || (call.nr === EXECVE && !(EXECVE in answers))
        ? null
        : (answers[call.nr] ?? 0);
    });
    return made;
  }

  test('makes all calls in order and executes the program', () => {
    const made = calls(image);
    expect(made.map(({ nr }) => nr)).toEqual([CLOSE, SETSID, IOCTL, PRCTL, SECCOMP, EXECVE]);
    expect(made[0]!.args[0]).toBe(7);
    expect(made[2]!.args.slice(0, 3)).toEqual([0, 0x540e, 0]);
    expect(made[3]!.args.slice(0, 5)).toEqual([38, 1, 0, 0, 0]);
    expect(made[4]!.args.slice(0, 2)).toEqual([1, 0]);
    const program = made[4]!.args[2]! - BASE;
    const filterAt = Number(image.readBigUInt64LE(program + 8)) - BASE;
    expect(image.subarray(filterAt, filterAt + image.readUInt16LE(program) * 8)).toEqual(EVERYTHING.filter);
    const [path = 0, argv = 0, env = 0] = made[5]!.args;
    expect(textAt(path)).toBe('/bin/prögram');
    expect(table(argv)).toEqual(['zero', '', 'ärg']);
    expect(table(env)).toEqual(['A=b c', 'Ü=ä', '=nameless']);
  });

  test.each([
    ['only the program', { session: null, filter: null }, [CLOSE, EXECVE]],
    ['a session', { session: 'withoutTerminal', filter: null }, [CLOSE, SETSID, EXECVE]],
  ] as const)('does no more than asked for: %s', (_, options, expected) => {
    const made = calls(launcherImage({ ...EVERYTHING, ...options }, 'arm64'));
    expect(made.map(({ nr }) => nr)).toEqual([...expected]);
  });

  describe('makes devices read-only', () => {
    const devices = ['/dev/null', '/dev/zero'].map(nativePathOfBytes);
    const sealing = launcherImage(
      { ...EVERYTHING, session: null, filter: null, devices, report: 8 },
      'arm64',
    );
    const dropped = [PRCTL, PRCTL, PRCTL, CAPSET];

    test('and then drops its capabilities', () => {
      const made = calls(sealing);
      expect(made.map(({ nr }) => nr)).toEqual([CLOSE, MOUNT, MOUNT, ...dropped, WRITE, CLOSE, EXECVE]);
      const pathAt = (address: number) =>
        sealing.toString('latin1', address - BASE, sealing.indexOf(0, address - BASE));
      expect(made.slice(1, 3).map(({ args }) => pathAt(args[1]!))).toEqual(devices);
      expect(made.slice(1, 3).map(({ args }) => args[3])).toEqual([0x1023, 0x1023]);
      expect(made.slice(3, 6).map(({ args }) => args.slice(0, 2))).toEqual([
        [24, 21],
        [24, 8],
        [47, 4],
      ]);
      const [header = 0, sets = 0] = made[6]!.args;
      expect(sealing.readUInt32LE(header - BASE)).toBe(0x20080522);
      expect(sealing.subarray(sets - BASE, sets - BASE + 24)).toEqual(Buffer.alloc(24));
    });

    test.each([
      ['a mount is refused', MOUNT, [CLOSE, MOUNT, MOUNT, WRITE, WRITE, EXIT_GROUP]],
      ['a capability stays', PRCTL, [CLOSE, MOUNT, MOUNT, PRCTL, WRITE, WRITE, EXIT_GROUP]],
      ['the capabilities stay', CAPSET, [CLOSE, MOUNT, MOUNT, ...dropped, WRITE, WRITE, EXIT_GROUP]],
    ])('or refuses the program when %s', (_, failing, expected) => {
      const made = calls(sealing, { [failing]: -EACCES });
      expect(made.map(({ nr }) => nr)).toEqual(expected);
      expect(sealing[made.at(-3)!.args[1]! - BASE]).toBe(LaunchReport.refused);
    });
  });

  test.each([
    ['opens stdin', 0, [CLOSE, CLOSE, OPENAT, EXECVE]],
    ['or refuses the program', -ENOENT, [CLOSE, CLOSE, OPENAT, WRITE, EXIT_GROUP]],
  ])('%s', (_, answer, expected) => {
    const stdin = nativePathOfBytes('/dev/null');
    const opening = launcherImage({ ...EVERYTHING, session: null, filter: null, stdin }, 'arm64');
    const made = calls(opening, { [OPENAT]: answer });
    expect(made.map(({ nr }) => nr)).toEqual(expected);
    expect(made[1]!.args[0]).toBe(0);
  });

  describe('changes to the working directory', () => {
    const cwd = nativePathOfBytes('/w/\xfc d');
    const changing = launcherImage({ ...EVERYTHING, session: null, filter: null, cwd, report: 8 }, 'arm64');

    test('and reports completion after that', () => {
      const made = calls(changing);
      expect(made.map(({ nr }) => nr)).toEqual([CLOSE, CHDIR, WRITE, CLOSE, EXECVE]);
      const from = made[1]!.args[0]! - BASE;
      expect(changing.toString('latin1', from, changing.indexOf(0, from))).toBe(cwd);
      expect(changing[made[2]!.args[1]! - BASE]).toBe(LaunchReport.complete);
    });

    test('or reports a refusal and exits', () => {
      const made = calls(changing, { [CHDIR]: -EACCES });
      expect(made.map(({ nr }) => nr)).toEqual([CLOSE, CHDIR, WRITE, WRITE, EXIT_GROUP]);
      expect(made[2]!.args[0]).toBe(8);
      expect(changing[made[2]!.args[1]! - BASE]).toBe(LaunchReport.refused);
      const from = made[3]!.args[1]! - BASE;
      expect(changing.toString('latin1', from, from + made[3]!.args[2]!)).toContain('cannot be entered');
      expect(made[4]!.args[0]).toBe(1);
    });
  });

  test('creates sockets, sends them and executes the program', () => {
    const listeners = { ports: [61_328, 61_080], mailbox: 9, firstFree: 30 };
    const sender = launcherImage({ ...EVERYTHING, session: null, filter: null, listeners }, 'arm64');
    const made = calls(sender, { [SOCKET]: 12 });
    const each = [SOCKET, DUP3, BIND, LISTEN];
    expect(made.map(({ nr }) => nr)).toEqual([CLOSE, ...each, ...each, SENDMSG, CLOSE, EXECVE]);
    expect(made[1]!.args.slice(0, 3)).toEqual([2, 0x80001, 0]);
    expect(made[2]!.args.slice(0, 3)).toEqual([12, 30, 0x80000]);
    expect([made[3]!.args[0], made[3]!.args[2]]).toEqual([30, 16]);
    const address = made[3]!.args[1]! - BASE;
    expect(sender.toString('hex', address, address + 8)).toBe('0200ef907f000001');
    expect(made[8]!.args[0]).toBe(31);
    expect([made[9]!.args[0], made[10]!.args[0]]).toEqual([9, 9]);
    const control = Number(sender.readBigUInt64LE(made[9]!.args[1]! - BASE + 32)) - BASE;
    expect(sender.toString('hex', control, control + 24)).toBe(
      '1800000000000000010000000100000' + '01e0000001f000000',
    );
  });

  test.each([
    [ENOENT, 127, 'does not exist'],
    [EACCES, 126, 'permission denied'],
    [ENOEXEC, 126, 'not a valid executable'],
    [E2BIG, 127, 'too long'],
    [EIO, 127, 'refused'],
  ])('reports errno %i with exit code %i', (errno, exitCode, message) => {
    const [write, exit] = calls(image, { [EXECVE]: -errno }).slice(-2);
    expect([write!.nr, write!.args[0], exit!.nr, exit!.args[0]]).toEqual([WRITE, 2, EXIT_GROUP, exitCode]);
    const from = write!.args[1]! - BASE;
    const text = image.toString('utf8', from, from + write!.args[2]!);
    expect(text).toMatch(/^exec-server: cannot execute \/bin\/prögram inside the sandbox: [^\n]+\n$/);
    expect(text).toContain(message);
  });

  test.each([
    ['no_new_privs', PRCTL],
    ['the filter', SECCOMP],
  ])('never executes the program when %s is refused', (_, nr) => {
    const made = calls(image, { [nr]: -22 });
    expect(made.map((call) => call.nr)).not.toContain(EXECVE);
    expect(made.at(-1)).toMatchObject({ nr: EXIT_GROUP });
    expect(made.at(-1)!.args[0]).toBe(127);
  });

  describe('verifies the mounts first', () => {
    const MOUNTS = [
      { path: nativePathOfBytes('/w'), file: { device: 0x1234_0000_5678n, inode: 77n } },
      { path: nativePathOfBytes('/w/.g\xff'), file: null },
    ];
    /** The major number (bits 8–19 and 32–63) and the minor number (the other bits) of that device. */
    const [major, minor] = [0x1056, 0x78 + 0x2340_0000];
    const well = { attributes: 0x2000, known: 0x2000, inode: 77n, major: 0, minor: 0 };

    const REPORT = 8;

    /** The paths that were checked, the report, and whether the program was executed, if statx returns these facts. */
    function checks(
      factsOf: (path: string) => Partial<typeof well> | null,
      certain = false,
    ): {
      paths: string[];
      reports: number[];
      executed: boolean;
    } {
      const checked = launcherImage({ ...EVERYTHING, mounts: MOUNTS, certain, report: REPORT }, 'arm64');
      const paths: string[] = [];
      const reports: number[] = [];
      const closed: number[] = [];
      let executed = false;
      runArm64(checked, BASE, ({ nr, args }, stack) => {
        if (nr === CLOSE) closed.push(args[0]!);
        if (nr === WRITE && args[0] === REPORT) {
          expect(args[2]).toBe(1);
          reports.push(checked[args[1]! - BASE]!);
        }
        if (nr === EXECVE) {
          executed = true;
          expect(closed).toContain(REPORT);
        }
        if (nr === EXECVE || nr === EXIT_GROUP) return null;
        if (nr !== STATX) return 0;
        expect([args[0], args[2], args[3]]).toEqual([0xffffff9c, 0x100, 0x100]);
        const from = args[1]! - BASE;
        const path = checked.toString('latin1', from, checked.indexOf(0, from));
        paths.push(path);
        const facts = factsOf(path);
        if (facts === null) return -ENOENT;
        const at = args[4]! - stack.start;
        const { attributes, known, inode } = { ...well, ...facts };
        stack.bytes.fill(0);
        stack.bytes.writeBigUInt64LE(BigInt(attributes), at + 8);
        stack.bytes.writeBigUInt64LE(inode, at + 32);
        stack.bytes.writeBigUInt64LE(BigInt(known), at + 56);
        stack.bytes.writeUInt32LE(facts.major ?? major, at + 136);
        stack.bytes.writeUInt32LE(facts.minor ?? minor, at + 140);
        return 0;
      });
      return { paths, reports, executed };
    }

    test('and executes the program when all mounts are as expected', () => {
      expect(checks(() => ({}))).toEqual({
        paths: ['/w', '/w/.g\xff'],
        reports: [LaunchReport.complete],
        executed: true,
      });
      // The second mount accepts any file.
      const other = (path: string) => (path === '/w' ? {} : { inode: 78n, major: 1, minor: 1 });
      expect(checks(other).executed).toBe(true);
      // Older kernels do not report mount points.
      expect(checks(() => ({ attributes: 0, known: 0 })).executed).toBe(true);
      expect(checks(() => ({}), true).executed).toBe(true);
    });

    test('and refuses when certainty is required and the kernel does not report mount points', () => {
      expect(checks(() => ({ attributes: 0, known: 0 }), true)).toMatchObject({
        reports: [LaunchReport.refused],
        executed: false,
      });
    });

    test.each([
      ['nothing is there', null],
      ['nothing is mounted there', { attributes: 0x1000 }],
      ['another file is there', { inode: 78n }],
      ['a file of another device is there', { major: 1 }],
      ['a file of a device next to it is there', { minor: 1 }],
    ])('and refuses the program when %s', (_, facts) => {
      expect(checks((path) => (path === '/w' ? facts : {}))).toEqual({
        paths: ['/w'],
        reports: [LaunchReport.refused],
        executed: false,
      });
    });
  });

  test('can only exit', () => {
    expect(calls(idleImage('arm64')).map(({ nr, args }) => [nr, args[0]])).toEqual([[EXIT_GROUP, 0]]);
  });
});
