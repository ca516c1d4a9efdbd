import { constants } from 'node:os';
import { type NativePath, textOfNativePath } from '../../files/native-path.ts';
import type { MountedPlace } from '../mounts/mount-plan.ts';
import { DataSegment, type ExpectedMount, type Failure, LOOPBACK_ADDRESS_BYTES } from './data-segment.ts';
import { executable } from './executable.ts';
import { type MachineCode, machineCode } from './machine-code.ts';
import type { Architecture } from './syscalls.ts';

/** What a launcher does, in this order, before it becomes the program. */
export interface Launch {
  /** Executed as it is, without a PATH lookup. */
  readonly path: string;
  readonly argv: readonly string[];
  /** The program's whole environment; the launcher's own is ignored. */
  readonly env: Readonly<Record<string, string>>;
  /** The descriptor through which the launcher is executed; the program does not get it. */
  readonly descriptor: number;
  /** A session of its own, with standard input as its controlling terminal or with none; null to stay in the given one. */
  readonly session: 'withTerminal' | 'withoutTerminal' | null;
  /** A filter of system calls to put itself under, or null. */
  readonly filter: Buffer | null;
  /** Sockets to make and to give away, or null. */
  readonly listeners: Listeners | null;
  /** What must be mounted, or the program is not executed. */
  readonly mounts: readonly ExpectedMount[];
  /** Whether the program is not executed either when the kernel does not tell whether something is mounted somewhere. */
  readonly certain: boolean;
  /** Where the program starts, or it is not executed; null to stay where the launcher is. */
  readonly cwd: NativePath | null;
  /** The descriptor to which one byte of {@link LaunchReport} is written before anything of the program runs; the program does not get it. */
  readonly report: number | null;
}

/** What a launcher says about the sandbox: that it is as it should be, or not. */
export const LaunchReport = { complete: 1, refused: 2 } as const;

/** Sockets that listen on 127.0.0.1 of the program's network but are served by the server. */
export interface Listeners {
  readonly ports: readonly number[];
  /** The descriptor of a unix socket over which they are sent, with one byte; the program does not get it. */
  readonly mailbox: number;
  /** From this number on descriptors are free. */
  readonly firstFree: number;
}

export function expectedMount({ path, identity }: MountedPlace): ExpectedMount {
  const [device, inode] = identity?.split(':') ?? [];
  return { path, file: inode === undefined ? null : { device: BigInt(device!), inode: BigInt(inode) } };
}

/**
 * A static executable that starts one program and carries everything about it: path, arguments, environment and filter. Nothing of it
 * has to be installed, and no shell or loader runs before the program. When the program cannot be executed it says so in one line
 * on descriptor 2 and exits with 127, or 126 for a file that exists. All strings must be free of NUL.
 */
export function launcherImage(launch: Launch, architecture: Architecture): Buffer {
  const data = new DataSegment();
  const code = launchCode(launch, data, architecture);
  return executable(architecture, data.content(), code);
}

/** An executable that exits with 0 at once. */
export function idleImage(architecture: Architecture): Buffer {
  const code = machineCode(architecture);
  code.call('exit_group', 0);
  return executable(architecture, Buffer.alloc(0), code.bytes());
}

function launchCode(launch: Launch, data: DataSegment, architecture: Architecture): Buffer {
  const code = machineCode(architecture);
  code.call('close', launch.descriptor);
  if (launch.mounts.length > 0) checkMounts(launch, data, code);
  if (launch.cwd !== null) enterDirectory(launch.cwd, launch.report, data, code);
  if (launch.report !== null) {
    writeReport(launch.report, LaunchReport.complete, data, code);
    code.call('close', launch.report);
  }
  if (launch.listeners !== null) giveAway(launch.listeners, data, code);
  if (launch.session !== null) code.call('setsid');
  if (launch.session === 'withTerminal') code.call('ioctl', 0, TIOCSCTTY, 0);
  if (launch.filter !== null) applyFilter(launch.filter, data, code);
  const argv = data.stringTable(launch.argv);
  const env = data.stringTable(Object.entries(launch.env).map(([name, value]) => `${name}=${value}`));
  code.call('execve', data.string(launch.path), argv, env);
  code.report(data.reportTable(executionFailures(launch.path)));
  return code.bytes();
}

/**
 * Paths may have been exchanged after they were looked at and before they were mounted, by another program: then something else may be
 * mounted, or elsewhere.
 */
function checkMounts({ mounts, certain, report }: Launch, data: DataSegment, code: MachineCode): void {
  const text =
    'exec-server: files that the sandbox is about were exchanged while it was built; start again\n';
  code.checkMounts(data.mountTable(mounts), certain, refusal({ exitCode: 127, text }, report, data, code));
}

/** bwrap could do it as well, if it knew where when it is started. The exit code is the one that it would give. */
function enterDirectory(cwd: NativePath, report: number | null, data: DataSegment, code: MachineCode): void {
  const text = `exec-server: the directory ${textOfNativePath(cwd)} cannot be entered inside the sandbox\n`;
  code.call('chdir', data.path(cwd));
  code.unlessZero(refusal({ exitCode: 1, text }, report, data, code));
}

/** Code that reports that the sandbox is not as it should be, and ends. */
function refusal(
  said: Omit<Failure, 'errno'>,
  report: number | null,
  data: DataSegment,
  code: MachineCode,
): () => void {
  const failures = data.reportTable([{ errno: 0, ...said }]);
  return () => {
    if (report !== null) writeReport(report, LaunchReport.refused, data, code);
    code.report(failures);
  };
}

function writeReport(descriptor: number, byte: number, data: DataSegment, code: MachineCode): void {
  code.call('write', descriptor, data.bytes(Buffer.of(byte)), 1);
}

/**
 * Nothing is checked here: in a network of its own the program finds every port free, and whoever waits for the sockets sees that
 * they do not come. All of them are closed when the program is executed.
 */
function giveAway({ ports, mailbox, firstFree }: Listeners, data: DataSegment, code: MachineCode): void {
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
/** Connections that wait until the server takes them; as many as servers usually let wait. */
const BACKLOG = 128;
const TIOCSCTTY = 0x540e;
const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_SET_MODE_FILTER = 1;
