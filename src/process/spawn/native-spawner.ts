import { closeSync, constants } from 'node:fs';
import type { Libc, SpawnRequest, StdioSlot } from '../../native/libc.ts';
import { findControlGroups } from '../resources/control-groups.ts';
import { ResourceLimiter } from '../resources/resource-limiter.ts';
import type { TerminalSize } from '../terminal-size.ts';
import type { ProcessTree } from '../tree/kill-tree.ts';
import { ProcessTagger, withoutCoreDumps } from '../tree/process-tagger.ts';
import { RemovalList } from '../tree/removal-list.ts';
import { SandboxedCommand } from '../tree/sandboxed-command.ts';
import type { WatchdogProcess, WatchdogProgram } from '../tree/watchdog.ts';
import { PipeSink, TerminalSink } from './input-sink.ts';
import {
  cancelled,
  checkLaunch,
  describeLaunchFailure,
  LaunchCache,
  rejectNulBytes,
} from './launch-checks.ts';
import { pipeSource, terminalSource } from './output-source.ts';
import { Reaper } from './reaper.ts';
import type { ChildParts } from './spawned-child.ts';
import { WrapperReport } from './spawned-child.ts';
import {
  type Child,
  type InheritedDescriptor,
  type SandboxCalls,
  SpawnError,
  type Spawner,
  type SpawnSpec,
} from './spawner.ts';
import { Supervisor } from './supervisor.ts';

/** Starts programs through posix_spawn, on real pipes or a terminal, each as the leader of its own session. */
export class NativeSpawner implements Spawner {
  readonly pty = { available: true } as const;
  readonly sandboxCalls: SandboxCalls;
  readonly readTag: (pid: number) => bigint | null;
  readonly #libc: Libc;
  readonly #reaper: Reaper;
  readonly #tagger: ProcessTagger;
  readonly #supervisor: Supervisor;
  readonly #removals: RemovalList;
  readonly #limiter: ResourceLimiter;
  readonly #launchCache = new LaunchCache(() => performance.now());

  constructor(
    libc: Libc,
    findGroups = findControlGroups,
    openCached: SandboxCalls['openCached'] = () => null,
  ) {
    this.#libc = libc;
    this.#tagger = new ProcessTagger(libc);
    this.readTag = this.#tagger.read;
    this.#limiter = new ResourceLimiter(libc, this.#tagger.read, findGroups);
    this.#reaper = new Reaper(libc, this.#tagger.isOurs);
    this.#removals = new RemovalList(() => libc.memoryFile(Buffer.alloc(0)));
    this.#supervisor = new Supervisor(
      this.#tagger,
      (program) => this.#startWatchdog(program),
      this.#removals,
    );
    this.sandboxCalls = {
      lock: (fd, mode) => libc.lock(fd, mode),
      removeAfterDeath: (path, kind) => this.#supervisor.removeAfterDeath(path, kind),
      openCached,
      memoryFile: (bytes) => libc.memoryFile(bytes),
      createPipe: () => libc.createPipe(),
      hasChanged: (fd) => libc.hasChanged(fd),
      hasExited: (pid) => libc.hasExited(pid),
      keepLoopAlive: (pid, keep) => this.#reaper.keepLoopAlive(pid, keep),
    };
  }

  async spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child> {
    if (spec.wrapper !== undefined) return this.#start(spec.program, spec, signal);
    if (!this.#launchCache.knows(spec) || signal?.aborted)
      return this.#start(await this.#check(spec, signal), spec, signal);
    rejectNulBytes(spec);
    try {
      return this.#start(spec.program, spec, signal);
    } catch (error) {
      if (!(error instanceof SpawnError) || error.code === 'ECANCELED') throw error;
      this.#launchCache.forget(spec);
      // The check reports what is wrong now. If it finds nothing, the system's error stands.
      await this.#check(spec, signal);
      throw error;
    }
  }

  async #check(spec: SpawnSpec, signal?: AbortSignal): Promise<string> {
    const path = await checkLaunch(spec, signal);
    this.#launchCache.add(spec);
    return path;
  }

  #start(path: string, spec: SpawnSpec, signal?: AbortSignal): Child {
    if (signal?.aborted) throw cancelled('aborted');
    this.#supervisor.prepareStart();
    const { child, exited } = this.#supervisor.adopt(this.#launchLimited(path, spec));
    this.#reaper.watch(child.pid, exited, { keepsLoopAlive: true });
    return child;
  }

  async close(): Promise<void> {
    await this.#supervisor.close();
    this.#reaper.close();
    this.#removals.close();
    await this.#limiter.close();
  }

  #launchLimited(path: string, spec: SpawnSpec): ChildParts {
    const limits = this.#limiter.prepare(spec.resources, spec.sessionLimits);
    if (limits === null) return this.#launch(path, spec);
    try {
      const parts = this.#launch(path, spec);
      return { ...parts, appliedLimits: limits.apply(parts.tree) };
    } catch (error) {
      limits.cancel();
      throw error;
    }
  }

  #launch(path: string, spec: SpawnSpec): ChildParts {
    const descriptors = new Descriptors(this.#libc);
    try {
      const more = (spec.inherited ?? NOTHING).map((content) => descriptors.inherited(content));
      const program = { path, argv: spec.argv, env: environment(spec.env), cwd: spec.cwd, more };
      const contains = spec.wrapper === 'contains';
      const parts =
        spec.io.kind === 'pty'
          ? this.#launchOnTerminal(program, spec.io, contains, descriptors)
          : this.#launchOnPipes(program, spec.io.stdin, contains, descriptors);
      const report = descriptors.report === null ? null : this.#report(descriptors.report);
      return contains
        ? { ...parts, report, command: new SandboxedCommand(parts.tree) }
        : { ...parts, report };
    } catch (error) {
      descriptors.closeOurs();
      throw describeLaunchFailure(error, path);
    } finally {
      descriptors.closeTheirs();
    }
  }

  #report(fd: number): WrapperReport {
    return new WrapperReport(pipeSource('stdout', fd, this.#libc));
  }

  #launchOnPipes(
    program: Program,
    stdin: 'open' | 'closed',
    forCommandInside: boolean,
    descriptors: Descriptors,
  ): ChildParts {
    const input = stdin === 'open' ? descriptors.pipe('write') : null;
    const output = descriptors.pipe('read');
    const errors = descriptors.pipe('read');
    // A file of the host must not be open in a sandbox: the command could change its mode.
    const nothing = () => (forCommandInside ? descriptors.inherited(NO_BYTES) : DEV_NULL_IN);
    const slot0 = input === null ? nothing() : { fd: input.theirs };
    const stdio = [slot0, { fd: output.theirs }, { fd: errors.theirs }, ...program.more] as const;
    const tree = this.#execute({ ...program, stdio });
    return {
      tree,
      outputs: [pipeSource('stdout', output.ours, this.#libc), pipeSource('stderr', errors.ours, this.#libc)],
      stdin: input === null ? null : new PipeSink(input.ours),
      resize: null,
    };
  }

  #launchOnTerminal(
    program: Program,
    size: TerminalSize,
    forCommandInside: boolean,
    descriptors: Descriptors,
  ): ChildParts {
    const terminal = descriptors.terminal(size);
    const flags = constants.O_RDWR | (forCommandInside ? constants.O_NOCTTY : 0);
    const slave = { open: terminal.slavePath, flags };
    const tree = this.#execute({ ...program, stdio: [slave, { fd: 0 }, { fd: 0 }, ...program.more] });
    const stdin = new TerminalSink(terminal.writer);
    const resize = (rows: number, cols: number) => {
      if (stdin.fd !== null) this.#libc.setWindowSize(stdin.fd, rows, cols);
    };
    return { tree, outputs: [terminalSource(terminal.reader, this.#libc)], stdin, resize };
  }

  #execute(request: SpawnRequest): ProcessTree {
    const started = this.#tagger.start(() => withoutCoreDumps(this.#libc, () => this.#libc.spawn(request)));
    return { ...started, reaped: false };
  }

  #startWatchdog({ removals, ...program }: WatchdogProgram): WatchdogProcess | null {
    const { readEnd, writeEnd } = this.#libc.createPipe();
    const exitListeners: (() => void)[] = [];
    let exited = false;
    try {
      const more = removals === null ? [] : [{ fd: removals }];
      const stdio = [{ fd: readEnd }, DEV_NULL_OUT, DEV_NULL_OUT, ...more] as const;
      const pid = this.#tagger.startUntagged(() => this.#libc.spawn({ ...program, stdio }));
      const onExit = () => {
        exited = true;
        for (const listener of exitListeners) listener();
      };
      this.#reaper.watch(pid, onExit, { keepsLoopAlive: false });
      return {
        pid,
        stdin: new PipeSink(writeEnd),
        onExit: (listener) => (exited ? listener() : exitListeners.push(listener)),
      };
    } catch (error) {
      closeSync(writeEnd);
      if (/^(?:ENOENT|EACCES)$/.test((error as NodeJS.ErrnoException).code ?? '')) return null;
      throw error;
    } finally {
      closeSync(readEnd);
    }
  }
}

type Program = Omit<SpawnRequest, 'stdio'> & { readonly more: readonly StdioSlot[] };
const DEV_NULL_IN: StdioSlot = { open: '/dev/null', flags: constants.O_RDONLY };
const NO_BYTES = new Uint8Array();
const NOTHING: readonly InheritedDescriptor[] = [];
const DEV_NULL_OUT: StdioSlot = { open: '/dev/null', flags: constants.O_WRONLY };

/** The descriptors opened for one start: `ours` stay in this process, `theirs` are inherited. */
class Descriptors {
  readonly #libc: Libc;
  readonly #ours: number[] = [];
  readonly #theirs: number[] = [];
  /** Our end of the pipe for a wrapper's report, if there is one. */
  report: number | null = null;

  constructor(libc: Libc) {
    this.#libc = libc;
  }

  pipe(weDo: 'read' | 'write'): { readonly ours: number; readonly theirs: number } {
    const { readEnd, writeEnd } = this.#libc.createPipe();
    const ours = weDo === 'read' ? readEnd : writeEnd;
    const theirs = weDo === 'read' ? writeEnd : readEnd;
    this.#ours.push(ours);
    this.#theirs.push(theirs);
    return { ours, theirs };
  }

  inherited(content: InheritedDescriptor): StdioSlot {
    if (content === 'empty') return DEV_NULL_IN;
    if (content === 'report') {
      const { ours, theirs } = this.pipe('read');
      this.report = ours;
      return { fd: theirs };
    }
    if ('fd' in content) return content;
    const fd = this.#libc.memoryFile(content);
    this.#theirs.push(fd);
    return { fd };
  }

  /** Reader and writer are separate descriptors of the master, so that each can be closed while the other is in use. */
  terminal(size: TerminalSize): {
    readonly reader: number;
    readonly writer: number;
    readonly slavePath: string;
  } {
    const { master, slavePath } = this.#libc.openTerminal(size.rows, size.cols);
    this.#ours.push(master);
    const writer = this.#libc.duplicate(master);
    this.#ours.push(writer);
    return { reader: master, writer, slavePath };
  }

  closeOurs(): void {
    this.#ours.forEach(closeSync);
  }

  closeTheirs(): void {
    this.#theirs.forEach(closeSync);
  }
}

/** Names are passed unchanged, including the empty one and those with `=`. */
function environment(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).map(([key, value]) => `${key}=${value}`);
}
