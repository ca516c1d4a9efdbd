import type { EnvPolicy } from '../environment/index.ts';
import {
  type ExecCommandArguments,
  parseExecCommand,
  parseWriteStdin,
  type WriteStdinArguments,
} from './arguments.ts';
import { type Clock, PausableClock, SYSTEM_CLOCK } from './clock.ts';
import { ExecToolError, type ToolName } from './errors.ts';
import type { ExecEvent } from './events.ts';
import { approve, endProcess, endQuietly, isDenied, type Launch, launch } from './launch/launch.ts';
import type { ExecPolicy } from './launch/policy.ts';
import { DEFAULT_ENV_POLICY } from './launch/program-environment.ts';
import { chooseTarget, commandRequest, type EnvironmentChoices, type ExecTarget } from './launch/request.ts';
import * as limits from './limits.ts';
import type { HeadTailBuffer } from './output/head-tail-buffer.ts';
import { modelText } from './output/model-text.ts';
import type { ToolOutput } from './output/tool-output.ts';
import type { TruncationPolicy } from './output/truncate.ts';
import { collectOutput } from './session/collect.ts';
import { Session } from './session/session.ts';
import { SessionStore } from './session/session-store.ts';
import { sendInput } from './session/stdin.ts';
import { execWaitMs, pollWaitMs, writeWaitMs } from './wait-times.ts';

/** Options of the tools. */
export interface AgentExecOptions {
  /** Where commands can run; the first is the default. */
  readonly targets: readonly ExecTarget[];
  /** Receives all events in order. Its exceptions are ignored. */
  readonly onEvent?: (event: ExecEvent) => void;
  readonly policy?: ExecPolicy;
  /** Which variables of the executor's environment programs inherit. */
  readonly envPolicy?: EnvPolicy;
  /** Variables that override the inherited ones. The variables that every program gets override these. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether shells may read the user's profile, which is then their default. Default: true. */
  readonly allowLogin?: boolean;
  /** How much output the model accepts. */
  readonly truncation?: TruncationPolicy;
  /** Longest poll without input. */
  readonly maxPollMs?: number;
  readonly clock?: Clock;
  /** Returns random numbers in [0, 1) for ids. */
  readonly random?: () => number;
}

/** The context of an `exec_command` call. */
export interface ExecContext {
  /** The id of the call in all events of the program. */
  readonly callId: string;
  readonly turnId?: string;
  /** Any string. Programs see it as CODEX_THREAD_ID; they see CODEX_TOOL_CALL_ID too unless it is not a UUID. */
  readonly threadId?: string;
  readonly agentSessionId?: string;
  /** The targets of this call, instead of the configured ones. */
  readonly targets?: readonly ExecTarget[];
  /** Aborts the call. A started program keeps running, and the next call returns its output. */
  readonly signal?: AbortSignal;
}

/** The context of a `write_stdin` call. */
export type WriteContext = Pick<ExecContext, 'signal'>;

/** A running program. */
export interface RunningProgram {
  readonly itemId: string;
  readonly processId: string;
  readonly command: readonly string[];
  readonly cwd: string;
}

/**
 * The tools with which a model runs programs, over any backend. A call waits for its program for a limited time and returns its
 * output. A program that takes longer continues as a session, and each call returns the output since the previous one.
 *
 * Failed calls reject with an {@link ExecToolError}. Exceptions of a policy pass unchanged.
 */
export class AgentExec {
  readonly #targets: readonly ExecTarget[];
  readonly #onEvent: (event: ExecEvent) => void;
  readonly #policy: ExecPolicy;
  readonly #environment: EnvironmentChoices;
  readonly #allowLogin: boolean;
  readonly #truncation: TruncationPolicy;
  readonly #maxPollMs: number;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #time: PausableClock;
  readonly #sessions: SessionStore<Session>;
  /** Programs whose end event is pending. */
  readonly #ends = new Map<Session, Promise<void>>();
  #closed = false;

  constructor(options: AgentExecOptions) {
    this.#targets = options.targets;
    this.#onEvent = options.onEvent ?? (() => {});
    this.#policy = options.policy ?? {};
    this.#environment = { envPolicy: options.envPolicy ?? DEFAULT_ENV_POLICY, env: options.env ?? {} };
    this.#allowLogin = options.allowLogin ?? true;
    this.#truncation = options.truncation ?? { mode: 'tokens', limit: limits.DEFAULT_OUTPUT_TOKENS };
    this.#maxPollMs = options.maxPollMs ?? limits.DEFAULT_MAX_POLL_MS;
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#random = options.random ?? Math.random;
    this.#time = new PausableClock(this.#clock);
    this.#sessions = new SessionStore(this.#random);
  }

  /** Runs a command. The arguments are an object, or its JSON text from a model. */
  async execCommand(args: ExecCommandArguments | string, context: ExecContext): Promise<ToolOutput> {
    const parsed = parseExecCommand(args);
    const target = chooseTarget(context.targets ?? this.#targets, parsed.environment_id);
    const request = commandRequest(parsed, target, context.callId, this.#allowLogin);
    const signal = context.signal ?? new AbortController().signal;
    this.#assertOpen('exec_command');
    const sessionId = this.#reserve();
    const call: Launch = {
      request,
      target,
      caller: context,
      sessionId,
      policy: this.#policy,
      environment: this.#environment,
      clock: this.#clock,
      time: this.#time,
      signal,
    };
    try {
      // From here on the session owns the id, or it is free again.
      const starting = this.#start(call, context.turnId ?? null);
      const { session, release } = await starting.finally(() => this.#sessions.cancel(sessionId));
      return await this.#firstPoll(session, release, {
        waitMs: execWaitMs(parsed.yield_time_ms, target.shell.name),
        maxTokens: parsed.max_output_tokens ?? limits.DEFAULT_OUTPUT_TOKENS,
        signal,
      });
    } catch (error) {
      throw this.#asToolError('exec_command', error, signal, sessionId);
    }
  }

  /** Writes to a program's stdin, or polls it. The arguments are an object, or its JSON text from a model. */
  async writeStdin(args: WriteStdinArguments | string, context: WriteContext = {}): Promise<ToolOutput> {
    const parsed = parseWriteStdin(args);
    const signal = context.signal ?? new AbortController().signal;
    this.#assertOpen('write_stdin');
    const session = this.#sessionOf(parsed.session_id);
    this.#sessions.touch(session);
    try {
      const release = await this.#lock(session, signal);
      try {
        // Another call may have returned its end meanwhile.
        if (!this.#sessions.has(session)) throw unknownSession(session.id);
        return await this.#interact(session, parsed, signal);
      } finally {
        release();
      }
    } catch (error) {
      throw this.#asToolError('write_stdin', error, signal, session.id);
    } finally {
      await this.#endReported(session, signal);
    }
  }

  /** Pauses the time limits of all calls, while the user answers a question. Returns a function that ends the pause. */
  pause(): () => void {
    return this.#time.pause();
  }

  /** The running programs, ordered by id. */
  list(): RunningProgram[] {
    const running = this.#sessions.all().filter(({ process }) => !process.state.ended);
    return running
      .sort((one, other) => one.id - other.id)
      .map(({ id, request }) => ({
        itemId: request.callId,
        processId: String(id),
        command: request.command,
        cwd: request.cwd,
      }));
  }

  /** Terminates a program and removes its session. Returns false when there is none; rejects when it cannot be terminated. */
  async terminate(sessionId: number): Promise<boolean> {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return false;
    await this.#terminate(session);
    return true;
  }

  /** Terminates all programs that can be reached. */
  async terminateAll(): Promise<void> {
    await Promise.allSettled(this.#sessions.all().map((session) => this.#terminate(session)));
  }

  /** Terminates all programs and rejects later calls. Resolves after the end event of every program. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.terminateAll();
    const ends = Promise.all(this.#ends.values());
    let cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#clock.after(limits.CLOSE_WAIT_MS, resolve);
    });
    await Promise.race([ends, late]);
    cancel();
    for (const { process } of this.#ends.keys()) process.abandon('the agent is closed');
    await Promise.all(this.#ends.values());
  }

  async #start(call: Launch, turnId: string | null): Promise<{ session: Session; release: () => void }> {
    await approve(call);
    this.#assertOpen('exec_command');
    const startedAt = this.#clock.now();
    const startedAtMs = this.#clock.epochMs();
    const { process, sandboxed } = await launch(call);
    if (this.#closed) {
      endQuietly(process, this.#clock);
      process.abandon('the agent is closed');
      this.#assertOpen('exec_command');
    }
    const { request, sessionId: id } = call;
    const session = new Session({ id, request, turnId, process, sandboxed, startedAt, startedAtMs });
    // Registered before the first wait: an aborted call must not lose it. The first call returns before all others.
    this.#sessions.add(session);
    const release = session.lock.take();
    this.#ends.set(session, this.#reportEnd(session));
    this.#emit(session.begin());
    process.streamTo((piece) => {
      const event = session.outputDelta(piece);
      if (event !== null) this.#emit(event);
    });
    process.network.streamTo((decision) => {
      if (this.#ends.has(session)) this.#emit(session.networkDecision(decision));
    });
    return { session, release };
  }

  async #firstPoll(session: Session, release: () => void, poll: Poll): Promise<ToolOutput> {
    const deadline = this.#time.now() + poll.waitMs;
    try {
      const output = await collectOutput(session.process, { ...this.#waitLimits(poll.signal), deadline });
      return this.#answer('exec_command', session, output, session.startedAt, poll.maxTokens);
    } finally {
      release();
      // Programs that ended meanwhile need no slot, so no session is evicted for them.
      this.#evictSessions();
      await this.#endReported(session, poll.signal);
    }
  }

  async #interact(session: Session, args: WriteStdinArguments, signal: AbortSignal): Promise<ToolOutput> {
    const startedAt = this.#clock.now();
    const { process } = session;
    const chars = args.chars ?? '';
    const waitLimits = this.#waitLimits(signal);
    const sent = chars !== '' && (await sendInput(session, chars, waitLimits));
    if (sent) this.#emit(session.terminalInteraction(chars));
    const waitMs =
      chars === '' ? pollWaitMs(args.yield_time_ms, this.#maxPollMs) : writeWaitMs(args.yield_time_ms);
    const output = await collectOutput(process, { ...waitLimits, deadline: this.#time.now() + waitMs });
    if (!sent && !process.state.ended) this.#emit(session.terminalInteraction(''));
    const maxTokens = args.max_output_tokens ?? limits.DEFAULT_OUTPUT_TOKENS;
    return this.#answer('write_stdin', session, output, startedAt, maxTokens);
  }

  /** Returns the result of a call; rejects when the program was lost. Removes a session that has ended. */
  #answer(
    tool: ToolName,
    session: Session,
    output: HeadTailBuffer,
    since: number,
    maxTokens: number,
  ): ToolOutput {
    const { process, sandboxed, id } = session;
    const { ended, exitCode, failureMessage } = process.state;
    const sessionId = ended ? null : id;
    const facts = {
      chunkId: this.#chunkId(),
      wallTimeMs: this.#clock.now() - since,
      exitCode,
      sessionId,
      output,
      network: process.network.takeDenials(),
    };
    const text = modelText(facts, maxTokens, this.#truncation);
    const sandboxDenied = ended && isDenied(process, sandboxed);
    const networkDenials = facts.network.denials;
    const answer: ToolOutput = { ...text, exitCode, sessionId, sandboxDenied, networkDenials };
    if (!ended) return answer;
    this.#sessions.remove(session);
    if (failureMessage === null) return answer;
    endQuietly(process, this.#clock);
    throw new ExecToolError(tool, 'processFailed', failureMessage, { output: answer });
  }

  /** Emits the end event of a program once, when no call uses its session. */
  async #reportEnd(session: Session): Promise<void> {
    await session.process.ended;
    const release = await session.lock.acquire();
    this.#emit(session.end(this.#clock.now(), this.#clock.epochMs(), this.#truncation));
    this.#ends.delete(session);
    release();
  }

  /** A call that returns the end of a program returns after the end event. */
  async #endReported(session: Session, signal: AbortSignal): Promise<void> {
    if (session.process.state.ended && !signal.aborted) await this.#ends.get(session);
  }

  async #terminate(session: Session): Promise<void> {
    await endProcess(session.process, this.#clock);
    // A call that is under way sees the end and removes the session itself.
    if (!session.busy) this.#sessions.remove(session);
  }

  #evictSessions(): void {
    for (const { process } of this.#sessions.evict()) endQuietly(process, this.#clock);
  }

  async #lock(session: Session, signal: AbortSignal): Promise<() => void> {
    if (session.lock.waiting >= limits.MAX_WAITING_CALLS) {
      throw new ExecToolError('write_stdin', 'overloaded', 'too many calls are waiting for this session');
    }
    return session.lock.acquire(signal);
  }

  #reserve(): number {
    const id = this.#sessions.reserve();
    if (id !== null) return id;
    throw new ExecToolError(
      'exec_command',
      'overloaded',
      `${limits.MAX_BUSY_SESSIONS} commands are running; wait until some have ended`,
    );
  }

  #sessionOf(id: number): Session {
    const session = this.#sessions.get(id);
    if (session === undefined) throw unknownSession(id);
    return session;
  }

  #assertOpen(tool: ToolName): void {
    if (this.#closed) throw new ExecToolError(tool, 'closed', 'the agent is closed');
  }

  #asToolError(tool: ToolName, error: unknown, signal: AbortSignal, sessionId: number): unknown {
    if (error instanceof ExecToolError || !signal.aborted) return error;
    const kept = this.#sessions.get(sessionId) === undefined ? undefined : sessionId;
    return new ExecToolError(tool, 'aborted', 'the call was aborted', { cause: error, sessionId: kept });
  }

  #waitLimits(signal: AbortSignal) {
    return { clock: this.#clock, time: this.#time, signal };
  }

  #chunkId(): string {
    return Math.floor(this.#random() * 2 ** 24)
      .toString(16)
      .padStart(6, '0');
  }

  #emit(event: ExecEvent): void {
    try {
      this.#onEvent(event);
    } catch {
      // An exception of the listener must not end programs or calls.
    }
  }
}

interface Poll {
  readonly waitMs: number;
  readonly maxTokens: number;
  readonly signal: AbortSignal;
}

function unknownSession(id: number): ExecToolError {
  return new ExecToolError(
    'write_stdin',
    'unknownSession',
    `there is no session ${id}; it never existed, or its end has been reported`,
  );
}
