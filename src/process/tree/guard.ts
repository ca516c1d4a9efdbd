import { GUARD_EXIT_DEADLINE_MS, GUARD_ROUNDS } from '../limits.ts';
import type { InputSink } from '../spawn/spawner.ts';
import { killProcess } from './process-table.ts';

/**
 * A shell that outlives the server and kills what the server leaves behind, however it died. It waits on a pipe that only the
 * server holds; when that ends without a dismissal it kills every process with the server's tag, and every process group it was
 * told of, and then removes the empty files and directories it was told of. There is at most one per server, started with the
 * first program.
 */
export class Guard {
  readonly #tag: bigint | null;
  readonly #start: StartGuard;
  /** Groups of programs without a brand. */
  readonly #groups = new Set<number>();
  /** Paths, one byte per character, to the line that announces each. */
  readonly #removals = new Map<string, string>();
  #running: GuardProcess | null = null;

  /** Without a tag the guard knows only the groups it is told of. */
  constructor(tag: bigint | null, start: StartGuard) {
    this.#tag = tag;
    this.#start = start;
  }

  /** Starts the guard, or starts it again if it died. A system without a shell goes unguarded. */
  ensureRunning(): void {
    if (this.#running !== null) return;
    let guard: GuardProcess;
    try {
      guard = this.#start({
        path: SHELL,
        argv: ['sh', '-c', GUARD_SCRIPT, 'exec-server-guard', String(this.#tag ?? '')],
        env: [`PATH=/usr/bin:/bin:${process.env.PATH ?? ''}`, 'LC_ALL=C'],
        cwd: '/',
      });
    } catch {
      return;
    }
    this.#running = guard;
    guard.onExit(() => {
      guard.stdin.destroy();
      if (this.#running === guard) this.#running = null;
    });
    for (const group of this.#groups) this.#tell(`+${group}`);
    for (const line of this.#removals.values()) this.#tell(line);
  }

  /** Has a process group killed with the server; for programs that carry no brand. */
  watchGroup(group: number): void {
    this.#groups.add(group);
    this.#tell(`+${group}`);
  }

  /** Must be called before the number of the group can be used again. */
  forgetGroup(group: number): void {
    if (this.#groups.delete(group)) this.#tell(`-${group}`);
  }

  /** See SandboxCalls. A path with a newline cannot be told of and stays. */
  removeAfterDeath(path: string, kind: 'directory' | 'file'): void {
    if (path.includes('\n')) return;
    const line = `${kind === 'directory' ? 'd' : 'f'}${path}`;
    this.#removals.set(path, line);
    this.#tell(line);
  }

  forgetRemoval(path: string): void {
    if (this.#removals.delete(path)) this.#tell(`x${path}`);
  }

  /** Dismisses the guard; resolves when it is reaped. */
  async close(): Promise<void> {
    const guard = this.#running;
    if (guard === null) return;
    this.#tell('bye');
    guard.stdin.end();
    const timer = setTimeout(() => killProcess(guard.pid), GUARD_EXIT_DEADLINE_MS);
    await new Promise<void>((resolve) => guard.onExit(resolve));
    clearTimeout(timer);
  }

  #tell(line: string): void {
    // A guard that is gone is replaced before the next start.
    this.#running?.stdin.write(Buffer.from(`${line}\n`, 'latin1'), () => {});
  }
}

/** Starts a program that carries no brand, keeps no event loop alive and has nothing but a pipe as its stdin. Throws on failure. */
export type StartGuard = (program: GuardProgram) => GuardProcess;

/** The guard's command line. */
export interface GuardProgram {
  readonly path: string;
  readonly argv: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
}

/** A running guard. `onExit` may be called several times and after the exit. */
export interface GuardProcess {
  readonly pid: number;
  readonly stdin: InputSink;
  onExit(listener: () => void): void;
}

const SHELL = '/bin/sh';

/**
 * `$1` is the server's tag. Zombies keep their limits and must not keep the loop going. The other parameters become the lines of
 * what to remove. A directory or file that another server uses is locked, and stays; so does everything where there is no flock. What
 * is locked is tried again twice: a server that dies lets go of the pipe first, and of its own locks a moment later.
 */
const GUARD_SCRIPT = `
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
  while [ $round -lt ${GUARD_ROUNDS} ]; do
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
