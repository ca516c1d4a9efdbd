import { constants } from 'node:os';
import { type NativePath, textOfNativePath } from '../../files/native-path.ts';
import type { MountedPath } from '../mounts/mount-plan.ts';
import { DataSegment, type ExpectedMount, type Failure, LOOPBACK_ADDRESS_BYTES } from './data-segment.ts';
import { SEAL_FLAGS, SEAL_FLAGS_NOEXEC } from './devices.ts';
import { executable } from './executable.ts';
import { type MachineCode, machineCode, WORKING_DIRECTORY } from './machine-code.ts';
import type { Architecture } from './syscalls.ts';

/** What a launcher does, in this order, before it executes the program. */
export interface Launch {
  /** Executed without a PATH lookup. */
  readonly path: string;
  readonly argv: readonly string[];
  /** The program's whole environment. The launcher's own is not passed on. */
  readonly env: Readonly<Record<string, string>>;
  /** The descriptor through which the launcher is executed. The launcher closes it. */
  readonly descriptor: number;
  /** Device files whose mounts the launcher makes read-only. It then gives up all its privileges. Empty when bwrap gave it none. */
  readonly devices: readonly NativePath[];
  /** The file to open as stdin. Null keeps the launcher's. */
  readonly stdin: NativePath | null;
  /** Creates a new session, with stdin as its controlling terminal or without one. Null stays in the current session. */
  readonly session: 'withTerminal' | 'withoutTerminal' | null;
  /** The seccomp filter that the launcher applies to itself, or null. */
  readonly filter: Buffer | null;
  /** Listening sockets to create and to send to the server, or null. */
  readonly listeners: Listeners | null;
  /** The mounts that must exist, otherwise the program is not executed. */
  readonly mounts: readonly ExpectedMount[];
  /** Whether to refuse the program when the kernel cannot report whether a path is a mount point. */
  readonly certain: boolean;
  /** The working directory, which must exist. Null keeps the launcher's. */
  readonly cwd: NativePath | null;
  /** The descriptor to which the launcher writes one byte of {@link LaunchReport} before it executes the program. The launcher closes it. */
  readonly report: number | null;
}

/** The launcher's report: the sandbox is complete, or the launcher refuses to execute the program. */
export const LaunchReport = { complete: 1, refused: 2 } as const;

/** Sockets that listen on 127.0.0.1 in the program's network namespace. The server accepts their connections. */
interface Listeners {
  readonly ports: readonly number[];
  /** The unix socket over which they are sent, with one byte. The launcher closes it. */
  readonly mailbox: number;
  /** The first unused descriptor number. */
  readonly firstFree: number;
}

export function expectedMount({ path, identity }: MountedPath): ExpectedMount {
  const [device, inode] = identity?.split(':') ?? [];
  return { path, file: inode === undefined ? null : { device: BigInt(device!), inode: BigInt(inode) } };
}

/**
 * Builds a static executable that starts one program. It contains the path, arguments, environment and filter. It needs no installed file,
 * and no shell or loader runs before the program. If the program cannot be executed, it prints one line to stderr and exits with 127, or
 * 126 for a file that exists. No string may contain NUL.
 */
export function launcherImage(launch: Launch, architecture: Architecture): Buffer {
  const data = new DataSegment();
  const code = launchCode(launch, data, architecture);
  return executable(architecture, data.content(), code);
}

/** Builds an executable that exits with 0. */
export function idleImage(architecture: Architecture): Buffer {
  const code = machineCode(architecture);
  code.call('exit_group', 0);
  return executable(architecture, Buffer.alloc(0), code.bytes());
}

function launchCode(launch: Launch, data: DataSegment, architecture: Architecture): Buffer {
  const code = machineCode(architecture);
  code.call('close', launch.descriptor);
  if (launch.devices.length > 0) sealDevices(launch, data, code);
  if (launch.mounts.length > 0) checkMounts(launch, data, code);
  if (launch.stdin !== null) openStdin(launch.stdin, launch.report, data, code);
  if (launch.cwd !== null) enterDirectory(launch.cwd, launch.report, data, code);
  if (launch.report !== null) {
    writeReport(launch.report, LaunchReport.complete, data, code);
    code.call('close', launch.report);
  }
  if (launch.listeners !== null) sendListeners(launch.listeners, data, code);
  if (launch.session !== null) code.call('setsid');
  if (launch.session === 'withTerminal') code.call('ioctl', 0, TIOCSCTTY, 0);
  if (launch.filter !== null) applyFilter(launch.filter, data, code);
  const argv = data.stringTable(launch.argv);
  const env = data.stringTable(Object.entries(launch.env).map(([name, value]) => `${name}=${value}`));
  code.call('execve', data.string(launch.path), argv, env);
  code.report(data.reportTable(executionFailures(launch.path)));
  return code.bytes();
}

/** Makes the devices of the host read-only, and drops the capabilities that this needs, also for every program that is executed later. */
function sealDevices({ devices, report }: Launch, data: DataSegment, code: MachineCode): void {
  const text = 'exec-server: the devices of the sandbox could not be protected from changes\n';
  const refuse = refusal({ exitCode: 127, text }, report, data, code);
  for (const device of devices) {
    const path = data.path(device);
    code.call('mount', 0, path, 0, SEAL_FLAGS, 0);
    code.unlessZero(() => code.call('mount', 0, path, 0, SEAL_FLAGS_NOEXEC, 0));
    code.unlessZero(refuse);
  }
  for (const capability of [CAP_SYS_ADMIN, CAP_SETPCAP]) {
    code.call('prctl', PR_CAPBSET_DROP, capability, 0, 0, 0);
    code.unlessZero(refuse);
  }
  code.call('prctl', PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  code.unlessZero(refuse);
  const none = Buffer.alloc(CAPABILITY_SETS_BYTES);
  const header = Buffer.alloc(CAPABILITY_HEADER_BYTES);
  header.writeUInt32LE(CAPABILITY_VERSION, 0);
  code.call('capset', data.bytes(header), data.bytes(none));
  code.unlessZero(refuse);
}

/** The lowest free descriptor is the one that was just closed. */
function openStdin(path: NativePath, report: number | null, data: DataSegment, code: MachineCode): void {
  const text = `exec-server: ${textOfNativePath(path)} cannot be opened inside the sandbox\n`;
  code.call('close', 0);
  code.call('openat', WORKING_DIRECTORY, data.path(path), 0, 0);
  code.unlessZero(refusal({ exitCode: 127, text }, report, data, code));
}

/**
 * Verifies the mounts. Another program may have replaced a path after it was probed and before it was mounted. Then another file is mounted,
 * or at another path.
 */
function checkMounts({ mounts, certain, report }: Launch, data: DataSegment, code: MachineCode): void {
  const text =
    'exec-server: files of the sandbox policy were replaced while the sandbox was built; start again\n';
  code.checkMounts(data.mountTable(mounts), certain, refusal({ exitCode: 127, text }, report, data, code));
}

/** Changes the directory. bwrap is started before the directory is known. Uses the exit code that bwrap would use. */
function enterDirectory(cwd: NativePath, report: number | null, data: DataSegment, code: MachineCode): void {
  const text = `exec-server: the directory ${textOfNativePath(cwd)} cannot be entered inside the sandbox\n`;
  code.call('chdir', data.path(cwd));
  code.unlessZero(refusal({ exitCode: 1, text }, report, data, code));
}

/** Returns code that reports a refusal and exits. */
function refusal(
  failure: Omit<Failure, 'errno'>,
  report: number | null,
  data: DataSegment,
  code: MachineCode,
): () => void {
  const failures = data.reportTable([{ errno: 0, ...failure }]);
  return () => {
    if (report !== null) writeReport(report, LaunchReport.refused, data, code);
    code.report(failures);
  };
}

function writeReport(descriptor: number, byte: number, data: DataSegment, code: MachineCode): void {
  code.call('write', descriptor, data.bytes(Buffer.of(byte)), 1);
}

/**
 * Creates the sockets and sends them to the server. Checks no results: all ports are free in a new network namespace, and the server notices
 * missing sockets. The sockets are closed on exec.
 */
function sendListeners({ ports, mailbox, firstFree }: Listeners, data: DataSegment, code: MachineCode): void {
  const descriptors = ports.map((_, index) => firstFree + index);
  for (const [index, port] of ports.entries()) {
    const descriptor = firstFree + index;
    code.call('socket', AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    code.callWithResult('dup3', descriptor, SOCK_CLOEXEC);
    code.call('bind', descriptor, data.loopbackAddress(port), LOOPBACK_ADDRESS_BYTES);
    code.call('listen', descriptor, BACKLOG);
  }
  code.call('sendmsg', mailbox, data.descriptorMessage(descriptors), 0);
  code.call('close', mailbox);
}

function applyFilter(filter: Buffer, data: DataSegment, code: MachineCode): void {
  const failures = data.reportTable([
    { errno: 0, exitCode: 127, text: 'exec-server: the system call filter of the sandbox was refused\n' },
  ]);
  const fail = () => code.report(failures);
  code.call('prctl', PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  code.unlessZero(fail);
  code.call('seccomp', SECCOMP_SET_MODE_FILTER, 0, data.filterProgram(filter));
  code.unlessZero(fail);
}

function executionFailures(path: string): Failure[] {
  const failure = (errno: number, exitCode: number, reason: string): Failure => ({
    errno,
    exitCode,
    text: `exec-server: cannot execute ${path} inside the sandbox: ${reason}\n`,
  });
  const { ENOENT, EACCES, ENOEXEC, E2BIG } = constants.errno;
  return [
    failure(ENOENT, 127, 'it, or the interpreter or loader it names, does not exist there'),
    failure(EACCES, 126, 'permission denied'),
    failure(ENOEXEC, 126, 'not a valid executable (no #! line?)'),
    failure(E2BIG, 127, 'its arguments and environment are too long'),
    failure(0, 127, 'the system refused it'),
  ];
}

const AF_INET = 2;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0x80000;
/** The listen backlog. 128 is a usual value. */
const BACKLOG = 128;
const TIOCSCTTY = 0x540e;
const PR_SET_NO_NEW_PRIVS = 38;
const PR_CAPBSET_DROP = 24;
const PR_CAP_AMBIENT = 47;
const PR_CAP_AMBIENT_CLEAR_ALL = 4;
const CAP_SETPCAP = 8;
const CAP_SYS_ADMIN = 21;
/** _LINUX_CAPABILITY_VERSION_3, `struct __user_cap_header_struct`, and two of `struct __user_cap_data_struct`. */
const CAPABILITY_VERSION = 0x20080522;
const CAPABILITY_HEADER_BYTES = 8;
const CAPABILITY_SETS_BYTES = 24;
const SECCOMP_SET_MODE_FILTER = 1;
