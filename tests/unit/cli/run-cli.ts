import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type Host, runCommand } from '../../../src/cli/commands.ts';
import { reportFailure, SERVER_FAILURES } from '../../../src/cli/failures.ts';
import { removeFolder } from '../../support/remove-folder.ts';

/** The built program, which is what users run. */
export const CLI = fileURLToPath(new URL('../../../dist/bin/exec-server.cjs', import.meta.url));

/** How a run of the program ended. */
export interface Outcome {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A started program; `outcome` settles when it has ended and its output is complete. */
export interface CliRun {
  readonly child: ChildProcessWithoutNullStreams;
  readonly outcome: Promise<Outcome>;
}

/** A folder for the files of one test file, with an empty home in it so that no settings of the user interfere. */
export class Workspace {
  readonly path = mkdtempSync(join(tmpdir(), 'exec-server-cli-'));
  readonly #children: ChildProcessWithoutNullStreams[] = [];

  /** Writes a file and returns its path. */
  file(name: string, contents: string | Uint8Array): string {
    const path = join(this.path, name);
    writeFileSync(path, contents);
    return path;
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): CliRun {
    if (!existsSync(CLI)) throw new Error(`${CLI} is missing; run \`npm run build\` first`);
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd: this.path,
      env: { PATH: process.env.PATH, HOME: this.path, ...env },
    });
    this.#children.push(child);
    const printed = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text) => {
        printed[name] += text;
      });
    }
    const outcome = once(child, 'close').then(([code, signal]) => ({ code, signal, ...printed }));
    return { child, outcome };
  }

  /** Runs the program to its end, with an empty stdin. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
    const { child, outcome } = this.start(args, env);
    child.stdin.end();
    return outcome;
  }

  /**
   * Runs a command that only reads files and prints, in this process and its directory: a new process costs 0.1 s. Servers do not run here,
   * because they change their process.
   */
  async runHere(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const host: Host = {
      env: { PATH: process.env.PATH, HOME: this.path, ...env },
      stdin: new PassThrough().end(),
      stdout,
      stderr,
      isTerminal: false,
      debug: false,
      failures: SERVER_FAILURES,
      onSignal() {},
      onDrainSignal() {},
      surviveHangup() {},
      onExit() {},
      exit() {},
    };
    const printed = (stream: PassThrough) => String(stream.read() ?? '');
    const outcome = (code: number, text: string, details: string): Outcome => ({
      code,
      signal: null,
      stdout: printed(stdout) + text,
      stderr: printed(stderr) + details,
    });
    return await runCommand(args, host).then(
      ({ exitCode, text, details = '' }) => outcome(exitCode, text, details),
      (error: unknown) => {
        const failure = reportFailure(error, host.debug, host.failures);
        return outcome(failure.exitCode, '', `${failure.text}\n`);
      },
    );
  }

  close(): void {
    for (const child of this.#children) if (child.exitCode === null) child.kill('SIGKILL');
    removeFolder(this.path);
  }
}

/** The first line a server prints: its URL. */
export async function firstLine({ child }: CliRun): Promise<string> {
  let printed = '';
  while (!printed.includes('\n')) printed += String((await once(child.stdout, 'data'))[0]);
  return printed.split('\n')[0]!;
}
