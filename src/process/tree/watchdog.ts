import { REMOVAL_SHELLS, REMOVALS_PER_SHELL, WATCHDOG_EXIT_DEADLINE_MS, WATCHDOG_ROUNDS } from '../limits.ts';
import type { InputSink } from '../spawn/spawner.ts';
import { killProcess } from './process-table.ts';
import type { RemovalList } from './removal-list.ts';

/**
 * A shell that outlives the server and kills what the server leaves behind, however it died. It reads a pipe that only the server
 * holds. When the pipe closes without a dismissal it kills every process with the server's tag and every registered process group.
 * Only then it reads the list of entries to remove. There is at most one watchdog per server, started with the first program.
 */
export class Watchdog {
  readonly #serverTag: bigint | null;
  readonly #start: StartWatchdog;
  readonly #removals: RemovalList | null;
  /** Groups of programs without a tag. */
  readonly #groups = new Set<number>();
  #running: WatchdogProcess | null = null;

  /** Without a server tag the watchdog kills only registered groups, and without a list it removes nothing. */
  constructor(serverTag: bigint | null, start: StartWatchdog, removals: RemovalList | null = null) {
    this.#serverTag = serverTag;
    this.#start = start;
    this.#removals = removals;
  }

  /** Starts the watchdog, or restarts it if it died. Throws when the system has no resources for it. */
  ensureRunning(): void {
    if (this.#running !== null) return;
    const watchdog = this.#start({
      path: SHELL,
      argv: [
        'sh',
        '-c',
        WATCHDOG_SCRIPT,
        'exec-server-watchdog',
        String(this.#serverTag ?? ''),
        REMOVE_SCRIPT,
      ],
      env: [`PATH=/usr/bin:/bin:${process.env.PATH ?? ''}`, 'LC_ALL=C'],
      cwd: '/',
      removals: this.#removals?.fd ?? null,
    });
    if (watchdog === null) return;
    this.#running = watchdog;
    watchdog.onExit(() => {
      watchdog.stdin.destroy();
      if (this.#running === watchdog) this.#running = null;
    });
    for (const group of this.#groups) this.#send(`+${group}`);
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

/**
 * Starts a program without a tag that does not keep the event loop alive. Its stdin is a pipe. Returns null when the program does not
 * exist: a system without a shell has no watchdog. Throws when the system has no resources.
 */
export type StartWatchdog = (program: WatchdogProgram) => WatchdogProcess | null;

/** The watchdog's command line. */
export interface WatchdogProgram {
  readonly path: string;
  readonly argv: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
  /** The open file for descriptor 3, or null. */
  readonly removals: number | null;
}

/** A running watchdog. `onExit` may be called several times and after the exit. */
export interface WatchdogProcess {
  readonly pid: number;
  readonly stdin: InputSink;
  onExit(listener: () => void): void;
}

const SHELL = '/bin/sh';

/**
 * `$1` is the server's tag, `$2` the script that removes entries. Zombies keep their limits, but must not keep the loop running. The list
 * of removals has a NUL after each entry, and more of them where slots are unused. An entry that another server uses is locked and
 * stays. A locked entry is tried twice more: a dying server closes the pipe first and releases its own locks a moment later. Several
 * shells remove entries at the same time, because each entry needs two short programs.
 */
const WATCHDOG_SCRIPT = `
trap '' TERM INT HUP QUIT
tag=$1
remove=$2
groups=' '
while IFS= read -r line; do
  case $line in
    bye) exit 0 ;;
    +*) groups="$groups\${line#+} " ;;
    -*) groups="\${groups%% \${line#-} *} \${groups#* \${line#-} }" ;;
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
[ -e /proc/self/fd/3 ] || exit 0
remove_all() {
  tr -s '\\000' </proc/self/fd/3 | xargs -0 -n ${REMOVALS_PER_SHELL} -P ${REMOVAL_SHELLS} sh -c "$remove" sh
}
remove_all || { sleep 0.2; remove_all; } || { sleep 1; remove_all; }
`;

/** Removes the entries of its arguments that are empty, carry the sticky bit and are not locked. Without flock(1) everything stays. */
const REMOVE_SCRIPT = `
left=
for entry do
  path=\${entry#?}
  [ -k "$path" ] && [ ! -h "$path" ] || continue
  case $entry in
    d/*) [ ! -d "$path" ] || { flock -xn 9 && rmdir "$path"; } 9<"$path" || left=yes ;;
    f/*) [ ! -f "$path" ] || [ -s "$path" ] || { flock -xn 9 && rm -f "$path"; } 9<"$path" || left=yes ;;
  esac
done 2>/dev/null
[ -z "$left" ]
`;
