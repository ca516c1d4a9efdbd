import { WATCHDOG_EXIT_DEADLINE_MS, WATCHDOG_ROUNDS } from '../limits.ts';
import type { InputSink } from '../spawn/spawner.ts';
import { killProcess } from './process-table.ts';

/**
 * A shell that outlives the server and kills what the server leaves behind, however it died. It reads a pipe that only the server
 * holds. When the pipe closes without a dismissal it kills every process with the server's tag and every registered process group.
 * Then it removes the registered empty files and directories. There is at most one per server, started with the first program.
 */
export class Watchdog {
  readonly #serverTag: bigint | null;
  readonly #start: StartWatchdog;
  /** Groups of programs without a tag. */
  readonly #groups = new Set<number>();
  /** Paths, one byte per character, to the line that registers each. */
  readonly #removals = new Map<string, string>();
  #running: WatchdogProcess | null = null;

  /** Without a server tag the watchdog kills only registered groups. */
  constructor(serverTag: bigint | null, start: StartWatchdog) {
    this.#serverTag = serverTag;
    this.#start = start;
  }

  /** Starts the watchdog, or restarts it if it died. A system without a shell has no watchdog. */
  ensureRunning(): void {
    if (this.#running !== null) return;
    let watchdog: WatchdogProcess;
    try {
      watchdog = this.#start({
        path: SHELL,
        argv: ['sh', '-c', WATCHDOG_SCRIPT, 'exec-server-watchdog', String(this.#serverTag ?? '')],
        env: [`PATH=/usr/bin:/bin:${process.env.PATH ?? ''}`, 'LC_ALL=C'],
        cwd: '/',
      });
    } catch {
      return;
    }
    this.#running = watchdog;
    watchdog.onExit(() => {
      watchdog.stdin.destroy();
      if (this.#running === watchdog) this.#running = null;
    });
    for (const group of this.#groups) this.#send(`+${group}`);
    for (const line of this.#removals.values()) this.#send(line);
  }

  /** Registers a process group to kill with the server; for programs without a tag. */
  watchGroup(group: number): void {
    this.#groups.add(group);
    this.#send(`+${group}`);
  }

  /** Must be called before the kernel can reuse the number of the group. */
  forgetGroup(group: number): void {
    if (this.#groups.delete(group)) this.#send(`-${group}`);
  }

  /** See SandboxCalls. A path with a newline cannot be registered and is not removed. */
  removeAfterDeath(path: string, kind: 'directory' | 'file'): void {
    if (path.includes('\n')) return;
    const line = `${kind === 'directory' ? 'd' : 'f'}${path}`;
    this.#removals.set(path, line);
    this.#send(line);
  }

  forgetRemoval(path: string): void {
    if (this.#removals.delete(path)) this.#send(`x${path}`);
  }

  /** Dismisses the watchdog. Resolves when it is reaped. */
  async close(): Promise<void> {
    const watchdog = this.#running;
    if (watchdog === null) return;
    this.#send('bye');
    watchdog.stdin.end();
    const timer = setTimeout(() => killProcess(watchdog.pid), WATCHDOG_EXIT_DEADLINE_MS);
    await new Promise<void>((resolve) => watchdog.onExit(resolve));
    clearTimeout(timer);
  }

  #send(line: string): void {
    // A watchdog that died is replaced before the next start.
    this.#running?.stdin.write(Buffer.from(`${line}\n`, 'latin1'), () => {});
  }
}

/** Starts a program without a tag that does not keep the event loop alive and has only a pipe as its stdin. Throws on failure. */
export type StartWatchdog = (program: WatchdogProgram) => WatchdogProcess;

/** The watchdog's command line. */
export interface WatchdogProgram {
  readonly path: string;
  readonly argv: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
}

/** A running watchdog. `onExit` may be called several times and after the exit. */
export interface WatchdogProcess {
  readonly pid: number;
  readonly stdin: InputSink;
  onExit(listener: () => void): void;
}

const SHELL = '/bin/sh';

/**
 * `$1` is the server's tag. Zombies keep their limits, but must not keep the loop running. The positional parameters then hold the
 * registered removals. An entry that another server uses is locked and stays; without flock(1) everything stays. A locked entry is
 * tried twice more: a dying server closes the pipe first and releases its own locks a moment later.
 */
const WATCHDOG_SCRIPT = `
trap '' TERM INT HUP QUIT
tag=$1
shift
groups=' '
while IFS= read -r line; do
  case $line in
    bye) exit 0 ;;
    +*) groups="$groups\${line#+} " ;;
    -*) groups="\${groups%% \${line#-} *} \${groups#* \${line#-} }" ;;
    d/*|f/*) set -- "$@" "$line" ;;
    x/*)
      count=$#
      while [ $count -gt 0 ]; do
        entry=$1
        shift
        [ "\${entry#?}" = "\${line#x}" ] || set -- "$@" "$entry"
        count=$((count - 1))
      done ;;
  esac
done
for group in $groups; do kill -9 "-$group" 2>/dev/null; done
kill_tagged() {
  round=0
  while [ $round -lt ${WATCHDOG_ROUNDS} ]; do
    found=
    for file in $(grep -l "realtime timeout *$tag[0-9]\\{9\\} " /proc/[0-9]*/limits 2>/dev/null); do
      process=\${file%/limits}
      grep -q '^State:[[:space:]]*[ZX]' "$process/status" 2>/dev/null && continue
      found=yes
      kill -9 "\${process#/proc/}" 2>/dev/null
    done
    [ -n "$found" ] || return
    round=$((round + 1))
    sleep 0.05
  done
}
[ -z "$tag" ] || kill_tagged
remove_all() {
  left=
  for entry in "$@"; do
    path=\${entry#?}
    [ -k "$path" ] && [ ! -h "$path" ] || continue
    case $entry in
      d*) flock -xn "$path" rmdir "$path" || left=yes ;;
      f*) [ -s "$path" ] || flock -xn "$path" rm -f "$path" || left=yes ;;
    esac
  done 2>/dev/null
  [ -z "$left" ]
}
remove_all "$@" || { sleep 0.2; remove_all "$@"; } || { sleep 1; remove_all "$@"; }
`;
