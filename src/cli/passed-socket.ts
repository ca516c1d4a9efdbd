import { RunError } from './failures.ts';

/**
 * Returns the listening socket that systemd has passed to this process, or null. Removes the variables that describe it, so that started
 * programs do not inherit them. Throws RunError for more than one socket. https://www.freedesktop.org/software/systemd/man/sd_listen_fds.html
 */
export function takePassedSocket(env: NodeJS.ProcessEnv, pid = process.pid): number | null {
  const { LISTEN_PID, LISTEN_FDS } = env;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES', 'LISTEN_PIDFDID']) delete env[name];
  // A parent may have got the variables, and left them to its children.
  if (LISTEN_PID !== String(pid) || LISTEN_FDS === '0') return null;
  if (LISTEN_FDS === '1') return FIRST_SOCKET;
  throw new RunError(
    `systemd passed ${LISTEN_FDS} sockets, and exec-server uses one; keep one ListenStream in the socket unit`,
  );
}

/** SD_LISTEN_FDS_START. Node marks all inherited descriptors close-on-exec, so programs do not get the socket. */
const FIRST_SOCKET = 3;
