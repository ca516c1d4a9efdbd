import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';

/**
 * Whether this process owns the device files of the host, as root does. bwrap binds them into each sandbox on writable mounts. Without any
 * capability their owner could change their mode and times there, and so those of the host. Other users own none of them.
 */
export function ownsDevices(): boolean {
  return process.geteuid?.() === 0;
}

/** The device files of the host that programs in the sandbox reach. */
export function visibleDevices(plan: Pick<MountPlan, 'steps'>): NativePath[] {
  return visibleInDev(plan, DEVICES);
}

/** The terminals of the sandbox itself. None when they are hidden. */
export function visibleTerminals(plan: Pick<MountPlan, 'steps'>): NativePath[] {
  return visibleInDev(plan, [TERMINALS]);
}

/** Those of the paths in /dev that no later mount hides, at the path itself or above it. */
function visibleInDev({ steps }: Pick<MountPlan, 'steps'>, paths: readonly NativePath[]): NativePath[] {
  const made = steps.findIndex(({ kind }) => kind === 'devices');
  if (made < 0) return [];
  const later = steps.slice(made + 1).flatMap((step) => ('path' in step ? [step.path] : []));
  return paths.filter((path) => !later.some((cover) => isWithin(path, cover)));
}

/** The devices that the launcher makes read-only. */
export function devicesToSeal(plan: Pick<MountPlan, 'steps'>): NativePath[] {
  return ownsDevices() ? visibleDevices(plan) : [];
}

const TERMINALS = nativePathOfBytes('/dev/pts');
export const NULL_DEVICE = nativePathOfBytes('/dev/null');

/** The device files that `bwrap --dev` binds. It also binds the terminal of a program as /dev/console, which belongs to the program. */
const DEVICES: readonly NativePath[] = [
  NULL_DEVICE,
  ...['/dev/zero', '/dev/full', '/dev/random', '/dev/urandom', '/dev/tty'].map(nativePathOfBytes),
];

/**
 * The flags of mount(2) that make an existing mount read-only: MS_REMOUNT, MS_BIND, MS_RDONLY and MS_NOSUID. `--remount-ro` of bwrap adds
 * MS_NODEV, and then no program could open the device. A read-only mount does not prevent writing to a device.
 */
export const SEAL_FLAGS = 0x20 | 0x1000 | 0x1 | 0x2;
/** The same with MS_NOEXEC, which the kernel demands where the /dev of the host has it. */
export const SEAL_FLAGS_NOEXEC = SEAL_FLAGS | 0x8;
