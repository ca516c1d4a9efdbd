import { closeSync, constants as fsConstants, writeSync } from 'node:fs';
import { constants as osConstants } from 'node:os';
import type { LibraryHandle } from 'koffi';
import { koffi } from './koffi.ts';

/** C library calls that Node does not offer. A failing call throws an Error whose `code` is the errno name. */
export interface Libc {
  /** A pipe whose two ends are closed on exec. */
  createPipe(): { readonly readEnd: number; readonly writeEnd: number };
  /** A pseudo-terminal of the given size. The master is non-blocking and closed on exec; the slave is not open yet. */
  openTerminal(rows: number, cols: number): { readonly master: number; readonly slavePath: string };
  /** A memfd with this content, executable and closed on exec. Its offset is 0. */
  memoryFile(bytes: Uint8Array): number;
  /** Takes an flock(2) without blocking; false when another process holds it. */
  lock(fd: number, mode: 'shared' | 'exclusive'): boolean;
  /** A second descriptor for the same open file, closed on exec. */
  duplicate(fd: number): number;
  setWindowSize(terminal: number, rows: number, cols: number): void;
  /**
   * Starts a program as the leader of a new session, with default signal dispositions, an empty signal mask and only the
   * descriptors in the request. Returns its pid after the image has been executed.
   */
  spawn(request: SpawnRequest): number;
  /** Reads available bytes into `buffer` at `offset`. Returns 0 without available bytes, at the end, and when the read fails. */
  readNow(fd: number, buffer: Buffer, offset: number): number;
  /** Bytes that a terminal or pipe has ready; 0 if empty or unknown. */
  readable(fd: number): number;
  /** Whether poll(2) reports an exceptional condition (POLLPRI), such as a change of the mount table. */
  hasChanged(fd: number): boolean;
  /** Enlarges the buffer of a pipe. Without permission the pipe stays as it is. */
  widenPipe(fd: number, bytes: number): void;
  /**
   * The pid of a child of this process that has exited and is not reaped, also one that other code started; null if there is none.
   */
  findExitedChild(): number | null;
  /** Whether a child has exited, reaped or not. */
  hasExited(pid: number): boolean;
  /** Reaps a child and returns its exit status; null while it runs or when it is not (or no longer) our child. */
  reap(pid: number): WaitStatus | null;
  /** The limits of a process (0 is this one), or null when they cannot be read. The next call reuses the returned array. */
  readLimit(pid: number, resource: number): Readonly<BigUint64Array> | null;
  /** Sets the limits of this process. */
  writeLimit(resource: number, soft: bigint, hard: bigint): void;
  /**
   * Lowers the soft and hard limit of a process and never raises them. Returns false when nothing changes, or the process does not
   * exist or is not ours.
   */
  lowerLimit(pid: number, resource: number, limit: bigint): boolean;
  /**
   * Makes this process undumpable: only processes with CAP_SYS_PTRACE can read its memory. An executed program is dumpable again.
   */
  protectMemory(): void;
}

/** How a child ended. Exactly one field is not null. */
export interface WaitStatus {
  readonly code: number | null;
  readonly signal: number | null;
}

/** A program start with the arguments of posix_spawn(3). No string may contain NUL. */
export interface SpawnRequest {
  /** Executed without a PATH lookup. A relative path is relative to `cwd`. */
  readonly path: string;
  readonly argv: readonly string[];
  /** `KEY=value` strings. */
  readonly env: readonly string[];
  readonly cwd: string;
  /**
   * The descriptors 0, 1, 2 and so on, in this order. A descriptor of this process must not be lower than its slot; Node itself
   * holds the lowest ones.
   */
  readonly stdio: readonly [StdioSlot, StdioSlot, StdioSlot, ...StdioSlot[]];
}

/**
 * The source of a child's descriptor: a descriptor to duplicate, as numbered in the child (so 0 repeats the first slot), or a file
 * to open. A terminal opened by a session leader becomes its controlling terminal.
 */
export type StdioSlot = { readonly fd: number } | { readonly open: string; readonly flags: number };

/** Loads the C library of this process. Throws when a function is missing, as in a libc that is too old. */
export function loadLibc(): Libc {
  const library = koffi.load('libc.so.6');
  const call = bind(library);
  const attributes = spawnAttributes(call);
  const limits = new BigUint64Array(2);
  const newLimits = new BigUint64Array(2);
  const waitInfo = new Int32Array(32);
  const waitStatus = new Int32Array(1);
  const readableBytes = new Int32Array(1);
  const pinned: Buffer[] = [];

  return {
    createPipe() {
      const ends = new Int32Array(2);
      check('pipe2', call.pipe2(ends, O_CLOEXEC));
      return { readEnd: ends[0]!, writeEnd: ends[1]! };
    },

    openTerminal(rows, cols) {
      const flags = fsConstants.O_RDWR | fsConstants.O_NOCTTY | fsConstants.O_NONBLOCK | O_CLOEXEC;
      const master = check('posix_openpt', call.posix_openpt(flags));
      try {
        check('grantpt', call.grantpt(master));
        check('unlockpt', call.unlockpt(master));
        const name = Buffer.alloc(128);
        checkCode('ptsname_r', call.ptsname_r(master, name, name.length));
        this.setWindowSize(master, rows, cols);
        return { master, slavePath: name.toString('utf8', 0, name.indexOf(0)) };
      } catch (error) {
        call.close(master);
        throw error;
      }
    },

    memoryFile(bytes) {
      const fd = check('memfd_create', createMemoryFile(call));
      try {
        for (let at = 0; at < bytes.length; at += writeSync(fd, bytes, at, bytes.length - at, at));
        return fd;
      } catch (error) {
        closeSync(fd);
        throw error;
      }
    },

    lock(fd, mode) {
      if (call.flock(fd, (mode === 'shared' ? LOCK_SH : LOCK_EX) | LOCK_NB) === 0) return true;
      if (koffi.errno() === osConstants.errno.EWOULDBLOCK) return false;
      throw systemError('flock', koffi.errno());
    },

    duplicate(fd) {
      return check('fcntl', call.fcntl(fd, F_DUPFD_CLOEXEC, 3));
    },

    setWindowSize(terminal, rows, cols) {
      check('ioctl', call.ioctl(terminal, TIOCSWINSZ, new Uint16Array([rows, cols, 0, 0])));
    },

    spawn(request) {
      const actions = Buffer.alloc(OPAQUE_STRUCT_BYTES);
      checkCode('posix_spawn_file_actions_init', call.actionsInit(actions));
      try {
        checkCode('addchdir', call.addChdir(actions, request.cwd));
        for (const [target, slot] of request.stdio.entries()) {
          if ('fd' in slot) checkCode('adddup2', call.addDup2(actions, slot.fd, target));
          else checkCode('addopen', call.addOpen(actions, target, slot.open, slot.flags, 0));
        }
        checkCode('addclosefrom', call.addCloseFrom(actions, request.stdio.length));
        const pid = new Int32Array(1);
        const argv = stringVector(request.argv, pinned);
        const env = stringVector(request.env, pinned);
        checkCode('posix_spawn', call.posixSpawn(pid, request.path, actions, attributes, argv, env));
        return pid[0]!;
      } finally {
        pinned.length = 0;
        call.actionsDestroy(actions);
      }
    },

    readNow(fd, buffer, offset) {
      const free = buffer.length - offset;
      return free === 0 ? 0 : Math.max(0, Number(call.read(fd, buffer.subarray(offset), free)));
    },

    readable(fd) {
      return call.ioctl(fd, FIONREAD, readableBytes) === 0 ? readableBytes[0]! : 0;
    },

    hasChanged(fd) {
      const pollfd = new Int32Array([fd, POLLPRI]);
      return call.poll(pollfd, 1, 0) !== 0;
    },

    widenPipe(fd, bytes) {
      call.fcntl(fd, F_SETPIPE_SZ, bytes);
    },

    findExitedChild() {
      waitInfo[SIGINFO_PID_INDEX] = 0;
      const found = call.waitid(P_ALL, 0, waitInfo, WEXITED | WNOHANG | WNOWAIT) === 0;
      return (found && waitInfo[SIGINFO_PID_INDEX]) || null;
    },

    hasExited(pid) {
      waitInfo[SIGINFO_PID_INDEX] = 0;
      const isChild = call.waitid(P_PID, pid, waitInfo, WEXITED | WNOHANG | WNOWAIT) === 0;
      return !isChild || waitInfo[SIGINFO_PID_INDEX] !== 0;
    },

    reap(pid) {
      if (call.waitpid(pid, waitStatus, WNOHANG) !== pid) return null;
      const status = waitStatus[0]!;
      const signal = status & 0x7f;
      return signal === 0 ? { code: (status >> 8) & 0xff, signal: null } : { code: null, signal };
    },

    readLimit(pid, resource) {
      return call.prlimit64(pid, resource, null, limits) === 0 ? limits : null;
    },

    writeLimit(resource, soft, hard) {
      newLimits[0] = soft;
      newLimits[1] = hard;
      check('prlimit', call.prlimit64(0, resource, newLimits, null));
    },

    lowerLimit(pid, resource, limit) {
      if (call.prlimit64(pid, resource, null, limits) !== 0) return false;
      if (limits[0]! <= limit && limits[1]! <= limit) return false;
      newLimits[0] = smaller(limits[0]!, limit);
      newLimits[1] = smaller(limits[1]!, limit);
      return call.prlimit64(pid, resource, newLimits, null) === 0;
    },

    protectMemory() {
      check('prctl', call.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    },
  };
}

const O_CLOEXEC = 0o2000000;
const F_DUPFD_CLOEXEC = 1030;
const F_SETPIPE_SZ = 1031;
const TIOCSWINSZ = 0x5414;
const FIONREAD = 0x541b;
/** `events` of a `struct pollfd`. The following two bytes are `revents`, which also reports errors. */
const POLLPRI = 2;
const LOCK_SH = 1;
const LOCK_EX = 2;
const LOCK_NB = 4;
const MFD_CLOEXEC = 1;
const MFD_EXEC = 0x10;
const P_ALL = 0;
const P_PID = 1;
const PR_SET_DUMPABLE = 4;
const WNOHANG = 1;
const WEXITED = 4;
const WNOWAIT = 0x01000000;
/** `si_pid` of a SIGCHLD siginfo_t, counted in ints; the same on every 64-bit Linux. */
const SIGINFO_PID_INDEX = 4;
const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
const POSIX_SPAWN_SETSID = 0x80;
/** Large enough for posix_spawnattr_t (336 bytes) and posix_spawn_file_actions_t (80 bytes) of every libc. */
const OPAQUE_STRUCT_BYTES = 512;
/** sizeof(sigset_t). */
const SIGNAL_SET_BYTES = 128;

function bind(library: LibraryHandle) {
  return {
    pipe2: library.func('int pipe2(void *fds, int flags)'),
    close: library.func('int close(int fd)'),
    memfd_create: library.func('int memfd_create(const char *name, unsigned int flags)'),
    flock: library.func('int flock(int fd, int operation)'),
    read: library.func('long read(int fd, void *buffer, size_t size)'),
    fcntl: library.func('int fcntl(int fd, int command, int argument)'),
    ioctl: library.func('int ioctl(int fd, unsigned long request, void *argument)'),
    poll: library.func('int poll(void *files, unsigned long count, int timeout)'),
    posix_openpt: library.func('int posix_openpt(int flags)'),
    grantpt: library.func('int grantpt(int fd)'),
    unlockpt: library.func('int unlockpt(int fd)'),
    ptsname_r: library.func('int ptsname_r(int fd, void *name, size_t size)'),
    actionsInit: library.func('int posix_spawn_file_actions_init(void *actions)'),
    actionsDestroy: library.func('int posix_spawn_file_actions_destroy(void *actions)'),
    addDup2: library.func('int posix_spawn_file_actions_adddup2(void *actions, int from, int to)'),
    addOpen: library.func(
      'int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned int mode)',
    ),
    addChdir: library.func('int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)'),
    addCloseFrom: library.func('int posix_spawn_file_actions_addclosefrom_np(void *actions, int from)'),
    attrInit: library.func('int posix_spawnattr_init(void *attributes)'),
    attrSetFlags: library.func('int posix_spawnattr_setflags(void *attributes, short flags)'),
    attrSetSigDefault: library.func('int posix_spawnattr_setsigdefault(void *attributes, const void *set)'),
    attrSetSigMask: library.func('int posix_spawnattr_setsigmask(void *attributes, const void *set)'),
    posixSpawn: library.func(
      'int posix_spawn(void *pid, const char *path, const void *actions, const void *attributes, const void *argv, const void *env)',
    ),
    waitid: library.func('int waitid(int type, unsigned int id, void *info, int options)'),
    waitpid: library.func('int waitpid(int pid, void *status, int options)'),
    prctl: library.func(
      'int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)',
    ),
    prlimit64: library.func('int prlimit64(int pid, int resource, const void *to, void *from)'),
  };
}

/** Kernels with `vm.memfd_noexec` require MFD_EXEC; older kernels reject the flag. */
function createMemoryFile(call: ReturnType<typeof bind>): number {
  const fd = call.memfd_create('exec-server', MFD_CLOEXEC | MFD_EXEC);
  if (fd !== -1 || koffi.errno() !== osConstants.errno.EINVAL) return fd;
  return call.memfd_create('exec-server', MFD_CLOEXEC);
}

function spawnAttributes(call: ReturnType<typeof bind>): Buffer {
  const attributes = Buffer.alloc(OPAQUE_STRUCT_BYTES);
  const everySignal = Buffer.alloc(SIGNAL_SET_BYTES, 0xff);
  const noSignal = Buffer.alloc(SIGNAL_SET_BYTES);
  checkCode('posix_spawnattr_init', call.attrInit(attributes));
  checkCode('posix_spawnattr_setsigdefault', call.attrSetSigDefault(attributes, everySignal));
  checkCode('posix_spawnattr_setsigmask', call.attrSetSigMask(attributes, noSignal));
  const flags = POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
  checkCode('posix_spawnattr_setflags', call.attrSetFlags(attributes, flags));
  return attributes;
}

/**
 * A NULL-terminated `char *[]`. The strings are in a buffer of their own because koffi limits converted strings to 1 MiB per call
 * while the kernel accepts more. The table holds raw addresses, so the buffer is added to `pinned`, which the caller keeps
 * reachable until the call has returned.
 */
function stringVector(strings: readonly string[], pinned: Buffer[]): BigUint64Array {
  const bytes = Buffer.from(`${strings.join('\0')}\0`);
  pinned.push(bytes);
  const table = new BigUint64Array(strings.length + 1);
  let address = koffi.address(bytes);
  for (const [index, text] of strings.entries()) {
    table[index] = address;
    address += BigInt(Buffer.byteLength(text) + 1);
  }
  return table;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** For calls that return -1 and set errno. */
function check(name: string, result: number): number {
  if (result === -1) throw systemError(name, koffi.errno());
  return result;
}

/** For calls that return the error number itself. */
function checkCode(name: string, result: number): void {
  if (result !== 0) throw systemError(name, result);
}

function systemError(syscall: string, errno: number): NodeJS.ErrnoException {
  const code = ERRNO_NAMES.get(errno) ?? `E${errno}`;
  return Object.assign(new Error(`${syscall}: ${code}`), { code, errno, syscall });
}

const ERRNO_NAMES = new Map(Object.entries(osConstants.errno).map(([name, value]) => [value, name]));
