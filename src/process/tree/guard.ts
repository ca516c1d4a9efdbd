import { GUARD_EXIT_DEADLINE_MS, GUARD_ROUNDS } from '../limits.ts';
import type { InputSink } from '../spawn/spawner.ts';
import { killProcess } from './process-table.ts';

/**
 * A shell that outlives the server and kills what the server leaves behind, however it died. It waits on a pipe that only the
 * server holds; when that ends without a dismissal it kills every process with the server's tag, and every process group it was
 * told of. There is at most one per server, started with the first program.
 */
export class Guard {
  readonly #tag: bigint | null;
  readonly #start: StartGuard;
  /** Groups of programs without a brand. */
  readonly #groups = new Set<number>();
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
    this.#running?.stdin.write(Buffer.from(`${line}\n`), () => {});
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

/** `$1` is the server's tag. Zombies keep their limits and must not keep the loop going. */
const GUARD_SCRIPT = `
trap '' TERM INT HUP QUIT
groups=' '
while IFS= read -r line; do
  case $line in
    bye) exit 0 ;;
    +*) groups="$groups\${line#+} " ;;
    -*) groups="\${groups%% \${line#-} *} \${groups#* \${line#-} }" ;;
  esac
done
for group in $groups; do kill -9 "-$group" 2>/dev/null; done
[ -n "$1" ] || exit 0
round=0
while [ $round -lt ${GUARD_ROUNDS} ]; do
  found=
  for file in $(grep -l "realtime timeout *$1[0-9]\\{9\\} " /proc/[0-9]*/limits 2>/dev/null); do
    process=\${file%/limits}
    grep -q '^State:[[:space:]]*[ZX]' "$process/status" 2>/dev/null && continue
    found=yes
    kill -9 "\${process#/proc/}" 2>/dev/null
  done
  [ -n "$found" ] || exit 0
  round=$((round + 1))
  sleep 0.05
done
`;
