import { constants } from 'node:os';
import type { NativePath } from '../../files/native-path.ts';
import type { MountedPlace } from '../mounts/mount-plan.ts';
import { type MachineCode, MOUNT_ENTRY_BYTES, machineCode, REPORT_ENTRY_BYTES } from './machine-code.ts';
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
  /** The descriptor to which one byte of {@link LaunchReport} is written before anything of the program runs; the program does not get it. */
  readonly report: number | null;
}

/** What a launcher says about the mounts. */
export const LaunchReport = { mountsChecked: 1, mountsRefused: 2 } as const;

/** A path at which something is mounted, and the file that it is; null when any will do. */
export interface ExpectedMount {
  readonly path: NativePath;
  readonly file: { readonly device: bigint; readonly inode: bigint } | null;
}

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
  const data = new DataSegment(DATA_ADDRESS);
  const code = launchCode(launch, data, architecture);
  return executable(architecture, [code, Buffer.alloc(CODE_ROOM - code.length), ...data.pieces]);
}

/** An executable that exits with 0 at once. */
export function idleImage(architecture: Architecture): Buffer {
  const code = machineCode(architecture);
  code.call('exit_group', 0);
  return executable(architecture, [code.bytes()]);
}

function launchCode(launch: Launch, data: DataSegment, architecture: Architecture): Buffer {
  const code = machineCode(architecture);
  code.call('close', launch.descriptor);
  if (launch.mounts.length > 0) checkMounts(launch, data, code);
  if (launch.report !== null) {
    writeReport(launch.report, LaunchReport.mountsChecked, data, code);
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
function checkMounts({ mounts, report }: Launch, data: DataSegment, code: MachineCode): void {
  const text =
    'exec-server: files that the sandbox is about were exchanged while it was built; start again\n';
  const failures = data.reportTable([{ errno: 0, exitCode: 127, text }]);
  code.checkMounts(data.mountTable(mounts), () => {
    if (report !== null) writeReport(report, LaunchReport.mountsRefused, data, code);
    code.report(failures);
  });
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

/** What is said and returned when a call fails with `errno`; 0 is any other one and comes last. */
interface Failure {
  readonly errno: number;
  readonly exitCode: number;
  readonly text: string;
}

const AF_INET = 2;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0x80000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
/** Connections that wait until the server takes them; as many as servers usually let wait. */
const BACKLOG = 128;
/** `struct sockaddr_in`. */
const LOOPBACK_ADDRESS_BYTES = 16;
/** `struct msghdr`, and `struct cmsghdr` before its content. */
const MESSAGE_BYTES = 56;
const CONTROL_HEADER_BYTES = 16;
const TIOCSCTTY = 0x540e;
const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_SET_MODE_FILTER = 1;

const FILE_HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const CODE_OFFSET = FILE_HEADER_BYTES + 2 * PROGRAM_HEADER_BYTES;
/** A multiple of every page size in use, far from where the kernel puts anything by itself. */
const LOAD_ADDRESS = 0x400000;
const LOAD_ALIGNMENT = 0x10000;
const CODE_ADDRESS = LOAD_ADDRESS + CODE_OFFSET;
/** The longest code, with everything that a launcher can do and eight sockets, takes less than 1900 bytes. */
const CODE_ROOM = 2048;
const DATA_ADDRESS = CODE_ADDRESS + CODE_ROOM;

const POINTER_BYTES = 8;
/** `struct sock_fprog`: the number of instructions, and their address after padding. */
const FILTER_PROGRAM_BYTES = 16;
const FILTER_INSTRUCTION_BYTES = 8;

/** Constants behind the code. Each method returns the address of what it has added. */
class DataSegment {
  readonly pieces: Buffer[] = [];
  #end: number;

  constructor(address: number) {
    this.#end = address;
  }

  bytes(bytes: Buffer): number {
    return this.#add(bytes);
  }

  string(text: string): number {
    return this.#add(Buffer.from(`${text}\0`));
  }

  /** A `char *[]` that ends with NULL. */
  stringTable(strings: readonly string[]): number {
    let address = this.#add(Buffer.from(strings.map((text) => `${text}\0`).join('')));
    const table = Buffer.alloc(POINTER_BYTES * (strings.length + 1));
    for (const [index, text] of strings.entries()) {
      table.writeUInt32LE(address, POINTER_BYTES * index);
      address += Buffer.byteLength(text) + 1;
    }
    return this.#add(table);
  }

  loopbackAddress(port: number): number {
    const address = Buffer.alloc(LOOPBACK_ADDRESS_BYTES);
    address.writeUInt16LE(AF_INET, 0);
    address.writeUInt16BE(port, 2);
    address.set([127, 0, 0, 1], 4);
    return this.#add(address);
  }

  /** A `struct msghdr` of one byte that carries descriptors. */
  descriptorMessage(descriptors: readonly number[]): number {
    const control = Buffer.alloc(CONTROL_HEADER_BYTES + 4 * descriptors.length);
    control.writeUInt32LE(control.length, 0);
    control.writeUInt32LE(SOL_SOCKET, 8);
    control.writeUInt32LE(SCM_RIGHTS, 12);
    for (const [index, descriptor] of descriptors.entries()) {
      control.writeUInt32LE(descriptor, CONTROL_HEADER_BYTES + 4 * index);
    }
    const vector = Buffer.alloc(2 * POINTER_BYTES);
    vector.writeUInt32LE(this.#add(Buffer.alloc(1)), 0);
    vector.writeUInt32LE(1, POINTER_BYTES);
    const message = Buffer.alloc(MESSAGE_BYTES);
    message.writeUInt32LE(this.#add(vector), 16);
    message.writeUInt32LE(1, 24);
    message.writeUInt32LE(this.#add(control), 32);
    message.writeUInt32LE(control.length, 40);
    return this.#add(message);
  }

  mountTable(mounts: readonly ExpectedMount[]): number {
    const table = Buffer.alloc(MOUNT_ENTRY_BYTES * (mounts.length + 1));
    for (const [index, { path, file }] of mounts.entries()) {
      const at = MOUNT_ENTRY_BYTES * index;
      table.writeUInt32LE(this.#add(Buffer.from(`${path}\0`, 'latin1')), at);
      if (file === null) continue;
      table.writeBigUInt64LE(file.inode, at + 8);
      table.writeUInt32LE(majorOf(file.device), at + 16);
      table.writeUInt32LE(minorOf(file.device), at + 20);
    }
    return this.#add(table);
  }

  filterProgram(filter: Buffer): number {
    const program = Buffer.alloc(FILTER_PROGRAM_BYTES);
    program.writeUInt16LE(filter.length / FILTER_INSTRUCTION_BYTES, 0);
    program.writeUInt32LE(this.#add(filter), 8);
    return this.#add(program);
  }

  reportTable(failures: readonly Failure[]): number {
    const table = Buffer.alloc(REPORT_ENTRY_BYTES * failures.length);
    for (const [index, { errno, exitCode, text }] of failures.entries()) {
      const bytes = Buffer.from(text);
      const at = REPORT_ENTRY_BYTES * index;
      table.writeUInt32LE(errno, at);
      table.writeUInt32LE(exitCode, at + 4);
      table.writeUInt32LE(this.#add(bytes), at + 8);
      table.writeUInt32LE(bytes.length, at + 16);
    }
    return this.#add(table);
  }

  /** Keeps every address a multiple of the size of a pointer, which arm64 is faster with. */
  #add(bytes: Buffer): number {
    const padding = -this.#end & (POINTER_BYTES - 1);
    this.pieces.push(Buffer.alloc(padding), bytes);
    const address = this.#end + padding;
    this.#end = address + bytes.length;
    return address;
  }
}

/** The numbers of a device are spread over its bits. */
function majorOf(device: bigint): number {
  return Number(((device >> 8n) & 0xfffn) | ((device >> 32n) & 0xfffff000n));
}

function minorOf(device: bigint): number {
  return Number((device & 0xffn) | ((device >> 12n) & 0xffffff00n));
}

/** An ELF file with one segment, readable and executable, which begins with the file's own headers. */
function executable(architecture: Architecture, pieces: readonly Buffer[]): Buffer {
  const headers = Buffer.alloc(CODE_OFFSET);
  const file = Buffer.concat([headers, ...pieces]);
  // 64 bits, little endian, version 1.
  file.write('\x7fELF\x02\x01\x01', 0, 'latin1');
  file.writeUInt16LE(ET_EXEC, 16);
  file.writeUInt16LE(ELF_MACHINE[architecture], 18);
  file.writeUInt32LE(1, 20);
  file.writeUInt32LE(CODE_ADDRESS, 24);
  file.writeUInt32LE(FILE_HEADER_BYTES, 32);
  file.writeUInt16LE(FILE_HEADER_BYTES, 52);
  file.writeUInt16LE(PROGRAM_HEADER_BYTES, 54);
  file.writeUInt16LE(2, 56);
  writeProgramHeader(file, FILE_HEADER_BYTES, {
    type: PT_LOAD,
    flags: READ | EXECUTE,
    address: LOAD_ADDRESS,
    bytes: file.length,
    alignment: LOAD_ALIGNMENT,
  });
  // Without this the stack would be executable.
  writeProgramHeader(file, FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES, {
    type: PT_GNU_STACK,
    flags: READ | WRITE,
    address: 0,
    bytes: 0,
    alignment: 16,
  });
  return file;
}

interface ProgramHeader {
  readonly type: number;
  readonly flags: number;
  readonly address: number;
  readonly bytes: number;
  readonly alignment: number;
}

function writeProgramHeader(file: Buffer, at: number, header: ProgramHeader): void {
  file.writeUInt32LE(header.type, at);
  file.writeUInt32LE(header.flags, at + 4);
  file.writeUInt32LE(header.address, at + 16);
  file.writeUInt32LE(header.address, at + 24);
  file.writeUInt32LE(header.bytes, at + 32);
  file.writeUInt32LE(header.bytes, at + 40);
  file.writeUInt32LE(header.alignment, at + 48);
}

const ET_EXEC = 2;
/** EM_X86_64 and EM_AARCH64. */
const ELF_MACHINE: Readonly<Record<Architecture, number>> = { x64: 62, arm64: 183 };
const PT_LOAD = 1;
const PT_GNU_STACK = 0x6474e551;
const EXECUTE = 1;
const WRITE = 2;
const READ = 4;
