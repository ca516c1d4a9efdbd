import { StartError } from '../../listener/start-error.ts';
import { nativeUnavailableReason } from '../../native/native-support.ts';
import type { ExecServerConfig } from '../config/config.ts';

/** Looks for control groups: an object with an obstacle says why there are none. */
export type FindControlGroups = () => object | { readonly obstacle: string };

/**
 * Rejects with StartError when the server is told to keep limits that this system cannot keep: it would refuse every program. Memory of
 * a single program can be limited without control groups.
 */
export async function refuseUnenforceableLimits(
  config: ExecServerConfig,
  find?: FindControlGroups,
): Promise<void> {
  const wanted = NEED_NATIVE.filter(({ key }) => config[key] > 0);
  if (wanted[0] === undefined) return;
  if (nativeUnavailableReason(config.nativeSpawn) !== null) {
    throw new StartError(
      `${wanted[0].flag} cannot be kept: it needs native starts (nativeSpawn), which there are none of here`,
    );
  }
  const inGroups = NEED_GROUPS.find((option) => wanted.includes(option));
  const obstacle = inGroups === undefined ? null : await groupObstacle(find);
  if (inGroups === undefined || obstacle === null) return;
  throw new StartError(
    `${inGroups.flag} cannot be kept: ${obstacle}. It needs a cgroup v2 with the controllers memory, pids and cpu that is delegated to the ` +
      'server: start it as a unit of systemd (`systemd-run --user --scope -p Delegate=yes exec-server ...`), or leave the option out',
  );
}

interface LimitOption {
  readonly key: keyof ExecServerConfig &
    `max${'Process' | 'Session'}${'MemoryBytes' | 'Pids' | 'CpuPercent'}`;
  readonly flag: string;
}

const NEED_GROUPS: readonly LimitOption[] = [
  { key: 'maxProcessPids', flag: '--max-process-pids' },
  { key: 'maxProcessCpuPercent', flag: '--max-process-cpu-percent' },
  { key: 'maxSessionMemoryBytes', flag: '--max-session-memory-bytes' },
  { key: 'maxSessionPids', flag: '--max-session-pids' },
  { key: 'maxSessionCpuPercent', flag: '--max-session-cpu-percent' },
];

const NEED_NATIVE: readonly LimitOption[] = [
  { key: 'maxProcessMemoryBytes', flag: '--max-process-memory-bytes' },
  ...NEED_GROUPS,
];

async function groupObstacle(find?: FindControlGroups): Promise<string | null> {
  const look = find ?? (await import('../../process/resources/control-groups.ts')).findControlGroups;
  const found = look();
  return 'obstacle' in found ? (found.obstacle as string) : null;
}
