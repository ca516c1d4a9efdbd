import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { BWRAP_MAX_ARGUMENTS, BWRAP_SPARE_ARGUMENTS, MAX_LATE_COVERS } from '../limits.ts';
import type { MountPlan, MountStep } from './mount-plan.ts';

/** How a plan is carried out. */
export interface BwrapOptions {
  /** Whether the sandbox gets a network of its own, in which there is nothing. */
  readonly isolateNetwork: boolean;
  /**
   * A descriptor of bwrap whose end says that the plan holds and its placeholders are there. Until then bwrap waits, with everything
   * mounted that does not depend on it. Only for a plan that {@link canBeBuiltAhead}.
   */
  readonly gate?: number;
  /** Gives the next descriptor of bwrap from which nothing can be read. Each is used up. */
  emptyFd(): number;
}

/**
 * The arguments for bwrap up to the command, which starts in the root directory, in bytes; none contains NUL. They are meant to be
 * handed over by `--args`. Throws SandboxError when there are more than bwrap takes.
 */
export function bwrapArguments(plan: MountPlan, options: BwrapOptions): string[] {
  const { gate } = options;
  const steps =
    gate === undefined
      ? plan.steps.flatMap((step) => argumentsOf(step, options))
      : inTwoParts(plan, gate, options);
  const args = [...namespaces(options), ...steps, '--chdir', '/'];
  if (args.length > BWRAP_MAX_ARGUMENTS - BWRAP_SPARE_ARGUMENTS) {
    throw unenforceable(
      'the sandbox needs more mounts than bwrap can make; deny directories instead of many files',
    );
  }
  return args;
}

/**
 * Whether most of a sandbox can be built before anybody needs it. A placeholder that is covered cannot be left for later: where it is
 * not made after all, bwrap would make it, and nobody would remove it. Many covers would not be worth it.
 */
export function canBeBuiltAhead({ steps, placeholders }: MountPlan): boolean {
  return (
    steps.every(({ kind }) => kind !== 'emptyRoot' && kind !== 'link') &&
    steps.filter(isCover).length <= MAX_LATE_COVERS &&
    placeholders.every(({ kind }) => kind === 'directory')
  );
}

/**
 * Behind the gate come the placeholders and all covers, with what is mounted inside them: where what is to be covered is gone, bwrap makes
 * a place for the cover, so that somebody has to have looked just before. What is read from the gate goes to `/dev/null`, and
 * nothing is left of it. A placeholder that is not there after all is passed over, which whoever is executed has to notice.
 */
function inTwoParts({ steps, placeholders }: MountPlan, gate: number, options: BwrapOptions): string[] {
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

/** The user namespace is always a new one: without it bwrap could not mount, and with capabilities its mounts could be undone. */
function namespaces({ isolateNetwork }: BwrapOptions): string[] {
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

function argumentsOf(step: MountStep, options: BwrapOptions): string[] {
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
 * Files of the kernel that belong to the machine and not to the sandbox. Root keeps its number inside, and with it the right to
 * write to what root owns; no capability is asked for. Of others (bus, irq, sysrq-trigger) bwrap sees to itself where they could be
 * written; each mount that is made twice costs a quarter of a millisecond.
 */
const KERNEL_SETTINGS: readonly NativePath[] = ['/proc/acpi', '/proc/fs', '/proc/scsi', '/proc/sys'].map(
  nativePathOfBytes,
);

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}
