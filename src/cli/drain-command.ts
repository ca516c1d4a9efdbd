import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { quoteValue } from '../server/config/values.ts';
import type { CommandResult, Host } from './commands.ts';
import { parseDuration } from './duration.ts';
import { RunError, UsageError } from './failures.ts';
import { type GivenFlags, parseOnlyFlags } from './flags.ts';
import { runningPrivateServer } from './private-server/running-private-server.ts';
import { ageText } from './programs/ps.ts';
import { type DrainAnswer, readDrainAnswer, writeDrainRequest } from './service/drain-file.ts';
import { expectServer, pidInFile, type ServerProcess, serverProcess } from './service/server-process.ts';
import { servicePidFile } from './service/unit-files.ts';
import { DRAIN } from './specs/drain-spec.ts';
import { table } from './table.ts';
import { commandLine } from './terminal-text.ts';

/** Asks a server to drain, and waits for its end. */
export async function drainCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('drain', argv, DRAIN.flags);
  const timeoutMs = flags.timeout === undefined ? null : parseDuration(flags.timeout, '--timeout', 'drain');
  const found = await findServer(flags, host.env);
  const report = flags.json ? new JsonReport(host.stdout) : new TextReport(host.stderr);
  if (found === null) return report.notRunning();
  const { pid, pidFile } = found;
  const server = serverProcess(pid);
  const deadline = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
  const request = new Request(pidFile, timeoutMs);
  let answer: DrainAnswer | null = null;
  try {
    if (!server.signal('SIGUSR2')) return report.ended(pid, null, null);
    answer = await request.answered(server);
    if (answer === null && request.expectsAnswer && !(await server.ended(0))) report.silent(pid);
    else report.draining(pid, answer);
  } finally {
    request.remove();
  }
  // A server that has got the request ends its programs itself.
  if (await server.ended(deadline - performance.now())) {
    if (answer !== null && request.isAnswerLeft) {
      throw new RunError(
        `process ${pid} was killed before it had ended its programs; they were interrupted if they still ran`,
        { kind: 'killed' },
      );
    }
    return report.ended(pid, performance.now() < deadline ? null : flags.timeout!, answer);
  }
  server.signal('SIGTERM');
  if (await server.ended(FORCED_END_MS)) return report.ended(pid, flags.timeout!, answer);
  throw new RunError(`process ${pid} has not ended ${FORCED_END_MS / 1_000} s after SIGTERM; see its log`);
}

/** How long a server may take to end its programs: longer than the default of shutdownGracePeriodMs. */
const FORCED_END_MS = 30_000;

/** Says what happens. */
interface Report {
  notRunning(): CommandResult;
  /** `answer` is null when the server does not say what it waits for. */
  draining(pid: number, answer: DrainAnswer | null): void;
  /** The server has not answered in time. It may drain nevertheless. */
  silent(pid: number): void;
  /** `timeout` is the time of this command after which programs were ended; null when it was not reached. */
  ended(pid: number, timeout: string | null, answer: DrainAnswer | null): CommandResult;
}

class TextReport implements Report {
  readonly #stderr: Writable;

  constructor(stderr: Writable) {
    this.#stderr = stderr;
  }

  notRunning(): CommandResult {
    return { text: '', details: 'no server is running\n', exitCode: 0 };
  }

  draining(pid: number, answer: DrainAnswer | null): void {
    const programs = answer === null ? '' : waitsFor(answer);
    this.#stderr.write(`process ${pid} drains; waiting until its programs have ended\n${programs}`);
  }

  silent(pid: number): void {
    this.#stderr.write(`process ${pid} does not answer: ${SILENT}; waiting until it has ended\n`);
  }

  ended(pid: number, timeout: string | null, answer: DrainAnswer | null): CommandResult {
    const late = isOver(answer) ? ', and the programs that were left at the deadline were ended' : '';
    const how = timeout === null ? late : `, and its programs were ended after ${timeout}`;
    return { text: '', details: `process ${pid} has ended${how}\n`, exitCode: 0 };
  }
}

class JsonReport implements Report {
  readonly #stdout: Writable;

  constructor(stdout: Writable) {
    this.#stdout = stdout;
  }

  notRunning(): CommandResult {
    return this.#last({ type: 'notRunning' });
  }

  draining(pid: number, answer: DrainAnswer | null): void {
    this.#stdout.write(`${JSON.stringify({ type: 'draining', pid, ...answer })}\n`);
  }

  silent(pid: number): void {
    this.#stdout.write(
      `${JSON.stringify({ type: 'note', message: `process ${pid} does not answer: ${SILENT}` })}\n`,
    );
  }

  ended(pid: number, timeout: string | null, answer: DrainAnswer | null): CommandResult {
    return this.#last({ type: 'ended', pid, timedOut: timeout !== null || isOver(answer) });
  }

  #last(value: object): CommandResult {
    return { text: `${JSON.stringify(value)}\n`, exitCode: 0 };
  }
}

const SILENT = 'it is stopped, busy, or of a version that does not answer';

/** Whether the server has reached its deadline, at which it ends the programs that are left. */
function isOver(answer: DrainAnswer | null): boolean {
  return answer?.deadlineMs != null && Date.now() >= answer.deadlineMs;
}

/** The request that goes with the signal. Without a pid file, or where no file can be written, the server gets only the signal. */
class Request {
  readonly #pidFile: string | null;
  readonly remove: () => void;

  constructor(pidFile: string | null, timeoutMs: number | null) {
    let [file, remove] = [pidFile, () => {}];
    try {
      if (pidFile !== null) remove = writeDrainRequest(pidFile, { timeoutMs });
    } catch {
      file = null;
    }
    this.#pidFile = file;
    this.remove = remove;
  }

  /** Whether a server of this version answers. */
  get expectsAnswer(): boolean {
    return this.#pidFile !== null;
  }

  /** Whether the answer is there. A server removes it when it exits, but not when it is killed or crashes. */
  get isAnswerLeft(): boolean {
    return this.#pidFile !== null && readDrainAnswer(this.#pidFile) !== null;
  }

  /** What the server answers; null when it does not, or ends before. */
  async answered(server: ServerProcess): Promise<DrainAnswer | null> {
    if (this.#pidFile === null) return null;
    const deadline = performance.now() + ANSWER_TIMEOUT_MS;
    for (;;) {
      const answer = readDrainAnswer(this.#pidFile);
      if (answer !== null || performance.now() >= deadline || (await server.ended(0))) return answer;
      await delay(ANSWER_CHECK_MS);
    }
  }
}

/** A server of an earlier version does not answer. */
const ANSWER_TIMEOUT_MS = 2_000;
const ANSWER_CHECK_MS = 20;

function waitsFor({ deadlineMs, total, programs }: DrainAnswer): string {
  if (total === 0) return '';
  const now = Date.now();
  const rows = programs.map(({ ref, name, argv, startedAtMs }) => [
    ref,
    name ?? '-',
    ageText(now - startedAtMs),
    commandLine(argv),
  ]);
  const more = total > programs.length ? `and ${total - programs.length} more\n` : '';
  const end = deadlineMs === null ? '' : `those that are left end at ${new Date(deadlineMs).toISOString()}\n`;
  return `${table([['REF', 'NAME', 'AGE', 'COMMAND'], ...rows])}${more}${end}`;
}

/** A server of this machine. */
interface FoundServer {
  readonly pid: number;
  /** The file that the server has written; null when it is not known. */
  readonly pidFile: string | null;
}

/** Finds the server that the flags name; null when it does not run. */
async function findServer(
  { service, user, pid, 'pid-file': pidFile }: GivenFlags<typeof DRAIN.flags>,
  env: NodeJS.ProcessEnv,
): Promise<FoundServer | null> {
  const given = [service && '--service', pid !== undefined && '--pid', pidFile !== undefined && '--pid-file'];
  const [first, second] = given.filter((name) => typeof name === 'string');
  if (second !== undefined) {
    throw new UsageError(`${first} and ${second} both name a server; give only one of them`, 'drain');
  }
  if (user && !service) throw new UsageError('--user needs --service', 'drain');
  if (pid !== undefined) {
    if (!/^[1-9]\d{0,9}$/.test(pid))
      throw new UsageError(`--pid: ${quoteValue(pid)} is not a process id`, 'drain');
    expectServer(Number(pid));
    return { pid: Number(pid), pidFile: null };
  }
  if (pidFile !== undefined) {
    const found = pidInFile(pidFile);
    return found === null ? null : { pid: found, pidFile };
  }
  if (!service) return runningPrivateServer(env);
  const { systemctl } = await import('./service/systemctl.ts');
  const main = Number(systemctl(user === true, env).property('exec-server.service', 'MainPID'));
  return main === 0 ? null : { pid: main, pidFile: servicePidFile(user === true, env) };
}
