import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';

/** A mount of a file system through which the kernel is configured, rather than files are stored. */
export interface KernelMount {
  readonly path: NativePath;
  /** The device number that stat(2) reports there, unless something else is mounted over it. */
  readonly device: bigint;
  /** What a sandbox may do with it at most. A /proc of the host would show the processes of the host, so it is hidden. */
  readonly access: 'read' | 'deny';
}

/**
 * The types of these file systems. A root user in a sandbox keeps uid 0, and the kernel lets the owner of their files change settings of
 * the machine, end processes in control groups or load programs into the kernel. No policy can allow that.
 */
const KERNEL_TYPES: ReadonlySet<string> = new Set([
  'binfmt_misc',
  'bpf',
  'cgroup',
  'cgroup2',
  'configfs',
  'cpuset',
  'debugfs',
  'efivarfs',
  'fusectl',
  'nfsd',
  'openpromfs',
  'proc',
  'pstore',
  'resctrl',
  'rpc_pipefs',
  'securityfs',
  'selinuxfs',
  'smackfs',
  'sysfs',
  'tracefs',
  'xenfs',
]);

/** The file that lists the mounts of this process; see proc_pid_mountinfo(5). */
export const MOUNT_TABLE = '/proc/self/mountinfo';

/**
 * Finds the kernel's file systems in a mount table, wherever they are mounted. Leaves out mounts inside another one: whatever is mounted
 * there is part of it. Leaves out /proc, because a sandbox has its own.
 */
export function kernelMountsOf(table: string): KernelMount[] {
  const mounts: KernelMount[] = [];
  for (const line of table.split('\n')) {
    const [head = '', tail = ''] = line.split(' - ', 2);
    const type = tail.split(' ', 1)[0]!;
    const [, , device, , point] = head.split(' ');
    if (point === undefined || !KERNEL_TYPES.has(type)) continue;
    const path = nativePathOfBytes(
      point.replace(/\\(\d{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8))),
    );
    if (isWithin(path, OWN_PROC)) continue;
    mounts.push({ path, device: deviceOf(device!), access: type === 'proc' ? 'deny' : 'read' });
  }
  return mounts.filter(
    ({ path }) => !mounts.some((other) => other.path !== path && isWithin(path, other.path)),
  );
}

const OWN_PROC = nativePathOfBytes('/proc');

/** Encodes `major:minor` as stat(2) does. */
function deviceOf(text: string): bigint {
  const [major = 0n, minor = 0n] = text.split(':').map(BigInt);
  return ((major & ~0xfffn) << 32n) | ((major & 0xfffn) << 8n) | ((minor & ~0xffn) << 12n) | (minor & 0xffn);
}
