/** Processors whose system calls are known here, by Node's names. */
export type Architecture = 'x64' | 'arm64';

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64: what the kernel says a call was made for. */
export const AUDIT_ARCH: Readonly<Record<Architecture, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };

export type SyscallName = keyof typeof NUMBERS;

export function syscallNumber(name: SyscallName, architecture: Architecture): number {
  return NUMBERS[name][architecture === 'x64' ? 0 : 1];
}

/** The numbers on x64 and arm64; the kernel never changes them. */
const NUMBERS = {
  accept: [43, 202],
  accept4: [288, 242],
  acct: [163, 89],
  add_key: [248, 217],
  bind: [49, 200],
  bpf: [321, 280],
  close: [3, 57],
  connect: [42, 203],
  delete_module: [176, 106],
  dup3: [292, 24],
  execve: [59, 221],
  exit_group: [231, 94],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  getpeername: [52, 205],
  getsockname: [51, 204],
  getsockopt: [55, 209],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioctl: [16, 29],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  listen: [50, 201],
  lookup_dcookie: [212, 18],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  open_tree_attr: [467, 467],
  perf_event_open: [298, 241],
  pidfd_getfd: [438, 438],
  pivot_root: [155, 41],
  prctl: [157, 167],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  ptrace: [101, 117],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  recvmmsg: [299, 243],
  request_key: [249, 218],
  seccomp: [317, 277],
  sendmmsg: [307, 269],
  sendmsg: [46, 211],
  sendto: [44, 206],
  setns: [308, 268],
  setsid: [112, 157],
  setsockopt: [54, 208],
  shutdown: [48, 210],
  socket: [41, 198],
  socketpair: [53, 199],
  statx: [332, 291],
  swapoff: [168, 225],
  swapon: [167, 224],
  umount2: [166, 39],
  userfaultfd: [323, 282],
  write: [1, 64],
} as const satisfies Readonly<Record<string, readonly [number, number]>>;
