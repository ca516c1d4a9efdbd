import { type Architecture, AUDIT_ARCH, type SyscallName, syscallNumber } from './syscalls.ts';

/** What a program may do with the network; `proxied` is by way of a proxy that listens on its own loopback address. */
export type NetworkMode = 'restricted' | 'proxied' | 'enabled';

/**
 * A filter of system calls as the kernel takes it: `struct sock_filter` after `struct sock_filter`. What it denies fails with EPERM,
 * calls made for another processor end the process, and everything else is allowed. User namespaces stay possible, because
 * browsers and the like confine themselves with them; the capabilities that they give are of no use without `mount` and `setns`.
 */
export function seccompFilter(mode: NetworkMode, architecture: Architecture): Buffer {
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
  program.denyWith(syscallNumber('ioctl', architecture), 1, INPUT_FAKING_REQUESTS);
  program.denyWith(syscallNumber('prlimit64', architecture), 0, [FIRST_PROCESS]);
  program.decide(verdictsByNumber(deniedCalls(mode), architecture));
  return program.bytes();
}

/** The calls that a mode denies whatever their arguments are. */
function deniedCalls(mode: NetworkMode): readonly SyscallName[] {
  return [...RULES[mode].denied, ...NEVER];
}

/** What becomes of the calls from one number up to the next verdict. */
interface Verdict {
  readonly from: number;
  readonly verdict: number;
}

/** By rising numbers, the first from 0 on. */
function verdictsByNumber(denied: readonly SyscallName[], architecture: Architecture): Verdict[] {
  const numbers = new Set(denied.map((name) => syscallNumber(name, architecture)));
  const edges = [...numbers].flatMap((number) => [number, number + 1]).filter((edge) => edge > 0);
  const verdicts = [...new Set([0, ...edges])]
    .sort((a, b) => a - b)
    .map((from) => ({ from, verdict: numbers.has(from) ? DENY : ALLOW }))
    .filter(({ verdict }, index, all) => verdict !== all[index - 1]?.verdict);
  // The x32 variants of the calls have the same architecture and other numbers.
  return architecture === 'x64' ? [...verdicts, { from: X32_CALLS, verdict: DENY }] : verdicts;
}

/** A call that is allowed only with certain values of one argument, of which the low 32 bits count. */
interface ArgumentRule {
  readonly call: SyscallName;
  readonly argument: number;
  readonly allowed: readonly number[];
}

interface ModeRules {
  readonly denied: readonly SyscallName[];
  /** Calls that make no sockets of {@link UNCONNECTED_TYPES}. */
  readonly onlyConnected: readonly SyscallName[];
  readonly onlyWith: readonly ArgumentRule[];
}

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;

/**
 * SOCK_DGRAM and SOCK_RAW, which is the same for local sockets. `sendmsg` gives such a socket its addressee with each message, so
 * that it reaches every local socket of the host whose path is visible; the filter cannot see the address. Other types have to be
 * connected first. What the type is combined with are flags.
 */
const UNCONNECTED_TYPES = [2, 3];
const SOCKET_TYPE_MASK = 0xf;

/** They act on many descriptors at once, past any filter of calls. */
const RINGS = ['io_uring_setup', 'io_uring_enter', 'io_uring_register'] as const;

/** They reach into other processes, which may have been started with another filter, or take their open sockets. */
const OTHER_PROCESSES = ['ptrace', 'process_vm_readv', 'process_vm_writev', 'pidfd_getfd'] as const;

const ONLY_LOCAL_PAIRS: ArgumentRule = { call: 'socketpair', argument: 0, allowed: [AF_UNIX] };

const RULES: Readonly<Record<NetworkMode, ModeRules>> = {
  // A pair of local sockets stays usable through sendmsg, recvmsg, recvfrom, read and write.
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

/** Calls that no sandboxed program has a use for, and that have been ways into the kernel or around a file tree. */
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

/** TIOCSTI and TIOCLINUX put characters into the input of a terminal, as if they had been typed. */
const INPUT_FAKING_REQUESTS = [0x5412, 0x541c];

/**
 * All processes of a sandbox end before its first one does, which the server waits for and knows by one of its limits. A program may
 * change its own limits but not those.
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

/** `struct sock_filter`: the operation, how far to jump when it is true or false, and its operand. */
const INSTRUCTION_BYTES = 8;

/** Writes the instructions one after the other; jumps only ever skip a few of them. The number of the call stays loaded. */
class FilterProgram {
  readonly #instructions: Buffer[] = [];

  loadWord(offset: number): void {
    this.#add(LOAD, 0, 0, offset);
  }

  returnUnlessEqual(value: number, verdict: number): void {
    this.#add(IF_EQUAL, 1, 0, value);
    this.#add(RETURN, 0, 0, verdict);
  }

  /** Decides about every use of the call. */
  denyUnless(call: number, argument: number, allowed: readonly number[]): void {
    this.#decideByArgument(call, argument, allowed, { listed: ALLOW, other: DENY });
  }

  denyWith(call: number, argument: number, denied: readonly number[]): void {
    this.#decideByArgument(call, argument, denied, { listed: DENY, other: ALLOW });
  }

  /** Decides only about the listed values of some bits of the argument. */
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
   * Decides about every call by its number, by halving the verdicts: the kernel tries each of its calls on a filter that it is given,
   * and with one comparison after the other that takes twice as long as everything else about it.
   */
  decide(verdicts: readonly Verdict[]): void {
    const half = verdicts.length >> 1;
    if (half === 0) {
      this.#add(RETURN, 0, 0, verdicts[0]!.verdict);
      return;
    }
    // So many instructions the lower half takes: a verdict each, and a comparison between every two.
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
    // Both processors store the low half of an argument first.
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
