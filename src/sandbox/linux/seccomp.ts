import { SEAL_FLAGS, SEAL_FLAGS_NOEXEC } from './devices.ts';
import { type Architecture, AUDIT_ARCH, type SyscallName, syscallNumber } from './syscalls.ts';

/** The network access of a program. `proxied` only reaches a proxy on its own loopback address. */
export type NetworkMode = 'restricted' | 'proxied' | 'enabled';

/** Which mount(2) calls a filter allows: none, or those that make a mount read-only. */
export type MountCalls = 'denied' | 'readOnly';

/**
 * Builds a seccomp filter in the kernel's format, an array of `struct sock_filter`. Denied calls fail with EPERM. Calls for another
 * architecture kill the process. All other calls are allowed. User namespaces stay allowed, because browsers sandbox themselves with them;
 * the capabilities in them are useless without `mount` and `setns`.
 *
 * With `mounts` 'readOnly' a launcher can make mounts read-only. A program without capabilities cannot, and in a user namespace of its own
 * it could only take away what it has itself.
 */
export function seccompFilter(
  mode: NetworkMode,
  architecture: Architecture,
  mounts: MountCalls = 'denied',
): Buffer {
  const program = new FilterProgram();
  program.loadWord(ARCHITECTURE_OFFSET);
  program.returnUnlessEqual(AUDIT_ARCH[architecture], KILL_PROCESS);
  program.loadWord(NUMBER_OFFSET);
  for (const call of RULES[mode].onlyConnected) {
    program.denyMasked(syscallNumber(call, architecture), 1, SOCKET_TYPE_MASK, UNCONNECTED_TYPES);
  }
  for (const { call, argument, allowed } of RULES[mode].onlyWith) {
    program.denyUnless(syscallNumber(call, architecture), argument, allowed);
  }
  program.denyWith(syscallNumber('ioctl', architecture), 1, TERMINAL_INPUT_REQUESTS);
  program.denyWith(syscallNumber('prlimit64', architecture), 0, [FIRST_PROCESS]);
  if (mounts === 'readOnly') {
    program.denyUnless(syscallNumber('mount', architecture), 3, [SEAL_FLAGS, SEAL_FLAGS_NOEXEC]);
  }
  program.decide(verdictsByNumber(deniedCalls(mode), architecture));
  return program.bytes();
}

/** The calls that a mode denies regardless of their arguments. */
function deniedCalls(mode: NetworkMode): readonly SyscallName[] {
  return [...RULES[mode].denied, ...NEVER];
}

/** The verdict for all call numbers from one number up to the next entry. */
interface Verdict {
  readonly from: number;
  readonly verdict: number;
}

/** In ascending order. The first starts at 0. */
function verdictsByNumber(denied: readonly SyscallName[], architecture: Architecture): Verdict[] {
  const numbers = new Set(denied.map((name) => syscallNumber(name, architecture)));
  const edges = [...numbers].flatMap((number) => [number, number + 1]).filter((edge) => edge > 0);
  const verdicts = [...new Set([0, ...edges])]
    .sort((a, b) => a - b)
    .map((from) => ({ from, verdict: numbers.has(from) ? DENY : ALLOW }))
    .filter(({ verdict }, index, all) => verdict !== all[index - 1]?.verdict);
  // The x32 variants of the calls have the same architecture but other numbers.
  return architecture === 'x64' ? [...verdicts, { from: X32_CALLS, verdict: DENY }] : verdicts;
}

/** A call that is allowed only for certain values in the low 32 bits of one argument. */
interface ArgumentRule {
  readonly call: SyscallName;
  readonly argument: number;
  readonly allowed: readonly number[];
}

interface ModeRules {
  readonly denied: readonly SyscallName[];
  /** Calls that must not create sockets of {@link UNCONNECTED_TYPES}. */
  readonly onlyConnected: readonly SyscallName[];
  readonly onlyWith: readonly ArgumentRule[];
}

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;

/**
 * SOCK_DGRAM and SOCK_RAW, which is the same for unix sockets. `sendmsg` names the destination with each message, so such a socket reaches
 * every unix socket of the host whose path is visible. The filter cannot read the address. Other types must be connected first. The other
 * bits of the argument are flags.
 */
const UNCONNECTED_TYPES = [2, 3];
const SOCKET_TYPE_MASK = 0xf;

/** They perform operations without system calls, past any filter. */
const RINGS = ['io_uring_setup', 'io_uring_enter', 'io_uring_register'] as const;

/** They access other processes, which may have another filter, or copy their open sockets. */
const OTHER_PROCESSES = ['ptrace', 'process_vm_readv', 'process_vm_writev', 'pidfd_getfd'] as const;

const ONLY_LOCAL_PAIRS: ArgumentRule = { call: 'socketpair', argument: 0, allowed: [AF_UNIX] };

const RULES: Readonly<Record<NetworkMode, ModeRules>> = {
  // A socket pair stays usable through sendmsg, recvmsg, recvfrom, read and write.
  restricted: {
    denied: [
      ...OTHER_PROCESSES,
      ...RINGS,
      'connect',
      'accept',
      'accept4',
      'bind',
      'listen',
      'getpeername',
      'getsockname',
      'shutdown',
      'sendto',
      'sendmmsg',
      'recvmmsg',
      'getsockopt',
      'setsockopt',
    ],
    onlyConnected: ['socket', 'socketpair'],
    onlyWith: [{ call: 'socket', argument: 0, allowed: [AF_UNIX] }, ONLY_LOCAL_PAIRS],
  },
  proxied: {
    denied: [...OTHER_PROCESSES, ...RINGS],
    onlyConnected: ['socketpair'],
    onlyWith: [{ call: 'socket', argument: 0, allowed: [AF_INET, AF_INET6] }, ONLY_LOCAL_PAIRS],
  },
  enabled: { denied: RINGS, onlyConnected: [], onlyWith: [] },
};

/** Calls that sandboxed programs do not need and that were used for kernel exploits or to bypass the file tree. */
const NEVER: readonly SyscallName[] = [
  'mount',
  'umount2',
  'pivot_root',
  'move_mount',
  'fsopen',
  'fsconfig',
  'fsmount',
  'fspick',
  'open_tree',
  'open_tree_attr',
  'mount_setattr',
  'setns',
  'open_by_handle_at',
  'keyctl',
  'add_key',
  'request_key',
  'userfaultfd',
  'perf_event_open',
  'bpf',
  'kexec_load',
  'kexec_file_load',
  'init_module',
  'finit_module',
  'delete_module',
  'acct',
  'swapon',
  'swapoff',
  'reboot',
  'quotactl',
  'quotactl_fd',
  'lookup_dcookie',
];

/** TIOCSTI and TIOCLINUX insert characters into the input of a terminal. */
const TERMINAL_INPUT_REQUESTS = [0x5412, 0x541c];

/**
 * The process tag is stored in a resource limit of the first process in the sandbox. All others end before it, and the server waits for it.
 * A program may change its own limits, but not those of process 1.
 */
const FIRST_PROCESS = 1;

/** Offsets in `struct seccomp_data`. */
const NUMBER_OFFSET = 0;
const ARCHITECTURE_OFFSET = 4;
const FIRST_ARGUMENT_OFFSET = 16;

const X32_CALLS = 0x40000000;

const KILL_PROCESS = 0x80000000;
const ALLOW = 0x7fff0000;
/** SECCOMP_RET_ERRNO with EPERM. */
const DENY = 0x00050001;

/** BPF_LD|BPF_W|BPF_ABS, BPF_ALU|BPF_AND|BPF_K, BPF_JMP|BPF_JA, …|BPF_JEQ|BPF_K, …|BPF_JGE|BPF_K and BPF_RET|BPF_K. */
const LOAD = 0x20;
const AND = 0x54;
const SKIP = 0x05;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const RETURN = 0x06;

/** `struct sock_filter`: the operation, the jump offsets for true and false, and the operand. */
const INSTRUCTION_BYTES = 8;

/** Appends instructions. Jumps only go forward. The call number stays in the accumulator. */
class FilterProgram {
  readonly #instructions: Buffer[] = [];

  loadWord(offset: number): void {
    this.#add(LOAD, 0, 0, offset);
  }

  returnUnlessEqual(value: number, verdict: number): void {
    this.#add(IF_EQUAL, 1, 0, value);
    this.#add(RETURN, 0, 0, verdict);
  }

  /** Applies the verdict to every use of the call. */
  denyUnless(call: number, argument: number, allowed: readonly number[]): void {
    this.#decideByArgument(call, argument, allowed, { listed: ALLOW, other: DENY });
  }

  denyWith(call: number, argument: number, denied: readonly number[]): void {
    this.#decideByArgument(call, argument, denied, { listed: DENY, other: ALLOW });
  }

  /** Applies the verdict only for the listed values of the masked argument. */
  denyMasked(call: number, argument: number, mask: number, denied: readonly number[]): void {
    this.#add(IF_EQUAL, 0, denied.length + 5, call);
    this.loadWord(FIRST_ARGUMENT_OFFSET + 8 * argument);
    this.#add(AND, 0, 0, mask);
    for (const [index, value] of denied.entries()) this.#add(IF_EQUAL, denied.length + 1 - index, 0, value);
    this.loadWord(NUMBER_OFFSET);
    this.#add(SKIP, 0, 0, 1);
    this.#add(RETURN, 0, 0, DENY);
  }

  /**
   * Applies the verdicts by call number, with a binary search. The kernel evaluates a new filter for each of its calls; with a linear
   * search that takes twice as long as all other work of installing it.
   */
  decide(verdicts: readonly Verdict[]): void {
    const half = verdicts.length >> 1;
    if (half === 0) {
      this.#add(RETURN, 0, 0, verdicts[0]!.verdict);
      return;
    }
    // The size of the lower half: one instruction for each verdict, and a comparison between every two.
    this.#add(IF_AT_LEAST, 2 * half - 1, 0, verdicts[half]!.from);
    this.decide(verdicts.slice(0, half));
    this.decide(verdicts.slice(half));
  }

  bytes(): Buffer {
    return Buffer.concat(this.#instructions);
  }

  #decideByArgument(
    call: number,
    argument: number,
    values: readonly number[],
    verdicts: { readonly listed: number; readonly other: number },
  ): void {
    this.#add(IF_EQUAL, 0, values.length + 3, call);
    // Both architectures are little-endian: the low half of an argument comes first.
    this.loadWord(FIRST_ARGUMENT_OFFSET + 8 * argument);
    for (const [index, value] of values.entries()) this.#add(IF_EQUAL, values.length - index, 0, value);
    this.#add(RETURN, 0, 0, verdicts.other);
    this.#add(RETURN, 0, 0, verdicts.listed);
  }

  #add(operation: number, ifTrue: number, ifFalse: number, operand: number): void {
    const instruction = Buffer.alloc(INSTRUCTION_BYTES);
    instruction.writeUInt16LE(operation, 0);
    instruction.writeUInt8(ifTrue, 2);
    instruction.writeUInt8(ifFalse, 3);
    instruction.writeUInt32LE(operand >>> 0, 4);
    this.#instructions.push(instruction);
  }
}
