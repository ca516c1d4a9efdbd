import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { ProcessError } from '../errors.ts';
import { limitsAnything } from '../resources/resource-limits.ts';
import type { WatchdogProcess, WatchdogProgram } from '../tree/watchdog.ts';
import { cancelled, checkLaunch, describeLaunchFailure } from './launch-checks.ts';
import { type Child, type ExitStatus, SpawnError, type Spawner, type SpawnSpec } from './spawner.ts';
import { StreamSink, StreamSource } from './stream-io.ts';
import { Supervisor } from './supervisor.ts';

/**
 * Starts programs through child_process, for systems where libc cannot be called. It has no terminals, gives children socket pairs
 * instead of pipes, runs a script without a `#!` line in a shell, and cannot find a descendant that became a daemon.
 */
export class NodeSpawner implements Spawner {
  readonly pty: Spawner['pty'];
  readonly #noTerminalsBecause: string;
  readonly #supervisor = new Supervisor(null, startWatchdog);

  /** The reason is shown to clients that request a terminal. */
  constructor(noTerminalsBecause: string) {
    this.#noTerminalsBecause = noTerminalsBecause;
    this.pty = { available: false, reason: noTerminalsBecause };
  }

  async spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child> {
    const { io } = spec;
    if (io.kind === 'pty') throw new SpawnError('ENOTSUP', this.#noTerminalsBecause);
    if (spec.wrapper !== undefined || spec.inherited !== undefined) {
      throw new SpawnError('ENOTSUP', 'programs can only be sandboxed by native starts');
    }
    const limited = spec.resources !== undefined && limitsAnything(spec.resources);
    if (limited || spec.sessionLimits != null) throw limitsNeedNative();
    const path = await checkLaunch(spec, signal);
    if (signal?.aborted) throw cancelled('aborted');
    this.#supervisor.prepareStart();
    const [argv0 = '', ...args] = spec.argv;
    const started = attempt(path, () =>
      spawn(path, args, {
        argv0,
        cwd: spec.cwd,
        env: spec.env,
        detached: true,
        stdio: [io.stdin === 'open' ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      }),
    );
    const { pid } = started;
    if (pid === undefined) {
      const [error] = await once(started, 'error');
      throw describeLaunchFailure(error, path);
    }
    return this.#adopt(pid, started);
  }

  async close(): Promise<void> {
    await this.#supervisor.close();
  }

  #adopt(pid: number, started: ChildProcess): Child {
    const { child, exited } = this.#supervisor.adopt({
      tree: { pid, tag: null, reaped: false },
      outputs: [new StreamSource('stdout', started.stdout!), new StreamSource('stderr', started.stderr!)],
      stdin: started.stdin === null ? null : new StreamSink(started.stdin),
      resize: null,
    });
    started.once('exit', (code, signal) => exited(exitStatus(code, signal)));
    return child;
  }
}

function limitsNeedNative(): ProcessError {
  return new ProcessError(
    'limitUnavailable',
    'limits of memoryBytes, pids and cpuPercent need native starts, which this server does not have',
  );
}

function attempt<T>(path: string, start: () => T): T {
  try {
    return start();
  } catch (error) {
    throw describeLaunchFailure(error, path);
  }
}

function exitStatus(code: number | null, signal: NodeJS.Signals | null): ExitStatus {
  return signal === null ? { code, signal: null } : { code: null, signal: constants.signals[signal] };
}

/** child_process reports why it did not start only later. Programs then run without a watchdog. */
function startWatchdog(program: WatchdogProgram): WatchdogProcess | null {
  const [argv0 = '', ...args] = program.argv;
  const env = Object.fromEntries(program.env.map((entry) => entry.split('=', 2)));
  const watchdog = spawn(program.path, args, {
    argv0,
    env,
    cwd: program.cwd,
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const { pid } = watchdog;
  watchdog.on('error', () => {});
  if (pid === undefined) return null;
  watchdog.unref();
  (watchdog.stdin as Socket).unref();
  return {
    pid,
    stdin: new StreamSink(watchdog.stdin),
    onExit: (listener) => {
      if (watchdog.exitCode !== null || watchdog.signalCode !== null) listener();
      else watchdog.once('exit', () => listener());
    },
  };
}
