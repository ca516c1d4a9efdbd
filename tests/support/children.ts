import { readdirSync, readFileSync } from 'node:fs';
import type {
  Child,
  ChildIo,
  ExitStatus,
  Spawner,
  SpawnSpec,
  StreamName,
} from '../../src/process/spawn/spawner.ts';

export const NO_INPUT: ChildIo = { kind: 'pipe', stdin: 'closed' };
export const INPUT: ChildIo = { kind: 'pipe', stdin: 'open' };
export const TERMINAL: ChildIo = { kind: 'pty', rows: 24, cols: 80 };

/** Returns a spec that runs a shell script. */
export function shell(script: string, io: ChildIo = NO_INPUT): SpawnSpec {
  return { ...command(['/bin/sh', '-c', script]), io };
}

/** Returns a spec that runs argv[0] without input. */
export function command(argv: readonly [string, ...string[]]): SpawnSpec {
  return { program: argv[0], argv, cwd: '/', env: { PATH: process.env.PATH ?? '' }, io: NO_INPUT };
}

/** The output of a child so far, and the ends of its streams and of the child itself. */
export interface Transcript {
  readonly child: Child;
  text(stream: StreamName): string;
  bytes(stream: StreamName): number;
  readonly ended: Promise<void>;
  readonly exited: Promise<ExitStatus>;
}

/** Listens to a child and, unless paused, starts reading. */
export function record(child: Child, options: { paused?: boolean } = {}): Transcript {
  const chunks: { stream: StreamName; bytes: Buffer }[] = [];
  const ends = child.outputs.map((source) => {
    const ended = new Promise<void>((resolve) => {
      source.listen((bytes) => chunks.push({ stream: source.name, bytes: Buffer.from(bytes) }), resolve);
    });
    if (!options.paused) source.resume();
    return ended;
  });
  const of = (stream: StreamName) =>
    Buffer.concat(chunks.filter((chunk) => chunk.stream === stream).map((chunk) => chunk.bytes));
  return {
    child,
    text: (stream) => of(stream).toString(),
    bytes: (stream) => of(stream).length,
    ended: Promise.all(ends).then(() => {}),
    exited: new Promise((resolve) => child.onExit(resolve)),
  };
}

/** The result of a program. */
export interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly pty: string;
  readonly status: ExitStatus;
}

/** Runs a program until it ends, and frees it. */
export async function run(spawner: Spawner, spec: SpawnSpec): Promise<Outcome> {
  const transcript = record(await spawner.spawn(spec));
  const [status] = await Promise.all([transcript.exited, transcript.ended]);
  transcript.child.release();
  const { text } = transcript;
  return { stdout: text('stdout'), stderr: text('stderr'), pty: text('pty'), status };
}

/** Number of open descriptors of this process. */
export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** Pids of this process's children, including zombies. */
export function childPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => statOf(pid)?.parent === process.pid);
}

/** Whether a process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== null && stat.state !== 'Z' && stat.state !== 'X';
}

function statOf(pid: number): { state: string; parent: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { state, parent: Number(parent) };
  } catch {
    return null;
  }
}
