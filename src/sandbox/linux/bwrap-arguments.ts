import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import type { InheritedDescriptor, SpawnSpec } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import { BWRAP_HEADROOM_ARGUMENTS, BWRAP_MAX_ARGUMENTS, MAX_LATE_COVERS } from '../limits.ts';
import type { MountPlan, MountStep } from '../mounts/mount-plan.ts';
import { devicesToSeal } from './devices.ts';

/** Options for carrying out a mount plan. */
export interface MountOptions {
  /** Whether the sandbox gets an empty network namespace. */
  readonly isolateNetwork: boolean;
  /**
   * A descriptor of bwrap. Its end of file says that the plan still holds and that its placeholders exist. Until then bwrap waits, after
   * it has mounted everything that does not depend on them. Only for a plan that {@link canBuildAhead} accepts.
   */
  readonly gate?: number;
  /** Returns the next descriptor of bwrap that reads as an empty file. bwrap consumes each one. */
  emptyFd(): number;
}

/** Everything that bwrap needs besides the command. */
interface BwrapOptions extends MountOptions {
  /** The descriptor with the seccomp filter. */
  readonly filterFd: number;
  /** Where bwrap writes the launcher to, as a read-only file. Null when the launcher is executed through its descriptor. */
  readonly launcherFile: { readonly fd: number; readonly path: NativePath } | null;
  /** What a file helper needs besides the plan. */
  readonly helper?: {
    /** The directory that holds the helper's own runtime. */
    readonly directory: NativePath;
    readonly mounts: readonly { readonly source: NativePath; readonly path: NativePath }[];
    /** Mounts that are made read-only after everything else is in place. */
    readonly readOnly: readonly NativePath[];
  };
}

/**
 * Returns how to start bwrap. The sandbox's own environment and working directory are set by the launcher: variables such as LD_PRELOAD
 * must not reach bwrap itself.
 */
export function bwrapSpec(
  bwrap: string,
  args: readonly string[],
  inherited: readonly InheritedDescriptor[],
): Pick<SpawnSpec, 'program' | 'argv' | 'cwd' | 'env' | 'inherited' | 'wrapper'> {
  return { program: bwrap, argv: ['bwrap', ...args], cwd: '/', env: {}, inherited, wrapper: 'contains' };
}

/** The command line of a bwrap that reads its arguments from a descriptor. Other users can read a command line. */
export function argumentsFrom(argumentsFd: number, executed: string): string[] {
  return ['--args', String(argumentsFd), '--', executed];
}

/** Arguments in the format that bwrap's `--args` reads. */
export function argumentFile(args: readonly string[]): Buffer {
  return Buffer.from(args.map((arg) => `${arg}\0`).join(''), 'latin1');
}

/** All arguments for bwrap up to the command. Throws SandboxError when there are more than bwrap takes. */
export function bwrapArguments(plan: MountPlan, options: BwrapOptions): string[] {
  const { filterFd, launcherFile, helper } = options;
  const args = mountArguments(plan, options);
  if (helper !== undefined) {
    args.push('--dir', helper.directory);
    for (const { source, path } of helper.mounts) args.push('--ro-bind', source, path);
  }
  if (launcherFile !== null) {
    args.push('--perms', '0555', '--ro-bind-data', String(launcherFile.fd), launcherFile.path);
  }
  // Only the launcher has them, and drops them.
  if (devicesToSeal(plan).length > 0) args.push('--cap-add', 'CAP_SYS_ADMIN', '--cap-add', 'CAP_SETPCAP');
  for (const path of helper?.readOnly ?? []) args.push('--remount-ro', path);
  args.push('--seccomp', String(filterFd));
  return args;
}

/**
 * The arguments for the namespaces and the file tree. The command starts in the root directory. Each argument holds one byte per
 * character and no NUL. Throws SandboxError when there are more than bwrap takes.
 */
export function mountArguments(plan: MountPlan, options: MountOptions): string[] {
  const { gate } = options;
  const steps =
    gate === undefined
      ? plan.steps.flatMap((step) => argumentsOf(step, options))
      : gatedArguments(plan, gate, options);
  const args = [...namespaces(options), ...steps, '--chdir', '/'];
  if (args.length > BWRAP_MAX_ARGUMENTS - BWRAP_HEADROOM_ARGUMENTS) {
    throw unenforceable(
      'the sandbox needs more mounts than bwrap can make; deny directories instead of many files',
    );
  }
  return args;
}

/** The arguments that use one kernel feature after the other. Each needs those before it. */
export const FEATURE_ARGUMENTS = {
  userNamespaces: ['--unshare-user', '--ro-bind', '/', '/', '--dev', '/dev'],
  processes: ['--unshare-pid', '--unshare-ipc', '--proc', '/proc'],
  network: ['--unshare-net'],
  filter: (fd: number) => ['--seccomp', String(fd)],
} as const;

/**
 * Whether most of a sandbox can be built before a program needs it. A placeholder file cannot wait behind the gate: if it were missing
 * then, bwrap would create it and no one would remove it. A plan with many covers would save too little time.
 */
export function canBuildAhead({ steps, placeholders }: MountPlan): boolean {
  return (
    steps.every(({ kind }) => kind !== 'emptyRoot' && kind !== 'link') &&
    steps.filter(isCover).length <= MAX_LATE_COVERS &&
    placeholders.every(({ kind }) => kind === 'directory')
  );
}

/**
 * Puts the placeholders and all covers, with the mounts inside them, behind the gate. bwrap creates a mount point for a cover when the
 * covered path is gone, so the paths must have been checked just before. bwrap copies what it reads from the gate to `/dev/null`. It skips
 * a placeholder that does not exist after all; the launcher detects that.
 */
function gatedArguments({ steps, placeholders }: MountPlan, gate: number, options: MountOptions): string[] {
  const made = new Set(placeholders.map(({ path }) => path));
  const covers = steps.filter(isCover);
  const isLate = (step: MountStep) =>
    'path' in step && (made.has(step.path) || covers.some(({ path }) => isWithin(step.path, path)));
  const argumentsOfLate = (step: MountStep) =>
    step.kind === 'bind' && made.has(step.path)
      ? ['--ro-bind-try', step.path, step.path]
      : argumentsOf(step, options);
  return [
    ...steps.filter((step) => !isLate(step)).flatMap((step) => argumentsOf(step, options)),
    ...['--file', String(gate), '/dev/null'],
    ...steps.filter(isLate).flatMap(argumentsOfLate),
  ];
}

type Cover = Extract<MountStep, { readonly kind: 'emptyDirectory' | 'emptyFile' }>;

function isCover(step: MountStep): step is Cover {
  return step.kind === 'emptyDirectory' || step.kind === 'emptyFile';
}

/** The user namespace is always new: bwrap needs one to mount. Without capabilities the program cannot undo the mounts. */
function namespaces({ isolateNetwork }: MountOptions): string[] {
  return [
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-cgroup-try',
    ...(isolateNetwork ? ['--unshare-net'] : []),
    '--die-with-parent',
    '--cap-drop',
    'ALL',
  ];
}

function argumentsOf(step: MountStep, options: MountOptions): string[] {
  switch (step.kind) {
    case 'bind':
      return [step.writable ? '--bind' : '--ro-bind', step.path, step.path];
    case 'emptyDirectory':
      return ['--perms', octal(step.mode), '--tmpfs', step.path];
    case 'seal':
      return ['--remount-ro', step.path];
    case 'emptyFile':
      return ['--perms', octal(step.mode), '--ro-bind-data', String(options.emptyFd()), step.path];
    case 'link':
      return ['--symlink', step.target, step.path];
    case 'emptyRoot':
      return ['--tmpfs', '/'];
    case 'devices':
      return [
        '--dev',
        '/dev',
        ...(step.sharedMemory === 'host' ? ['--bind-try', '/dev/shm', '/dev/shm'] : []),
      ];
    case 'processes':
      return ['--proc', '/proc', ...KERNEL_SETTINGS.flatMap((path) => ['--ro-bind-try', path, path])];
  }
}

/**
 * Kernel files that belong to the machine and not to the sandbox. A root user keeps uid 0 inside and may write files that root owns;
 * the kernel asks for no capability. Most machines have four of them. bwrap itself protects others (bus, irq, sysrq-trigger) where they
 * are writable. Each duplicate mount costs a quarter of a millisecond.
 */
const KERNEL_SETTINGS: readonly NativePath[] = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/dynamic_debug',
  '/proc/fs',
  '/proc/latency_stats',
  '/proc/lock_stat',
  '/proc/profile',
  '/proc/scsi',
  '/proc/sys',
  '/proc/timer_stats',
].map(nativePathOfBytes);

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}
