import { expectText } from '../client/connection/option-checks.ts';
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
import { reopen } from './launch/reopen.ts';
import { chooseTarget, commandRequest, type EnvironmentChoices, type ExecTarget } from './launch/request.ts';
import * as limits from './limits.ts';
import { checkAgentOptions, checkContext, EXEC_CONTEXT, REOPEN_CONTEXT } from './option-checks.ts';
import type {
  AgentExecOptions,
  ExecContext,
  ReopenContext,
  RunningProgram,
  WriteContext,
} from './options.ts';
import type { HeadTailBuffer } from './output/head-tail-buffer.ts';
import { modelText } from './output/model-text.ts';
import type { ToolOutput } from './output/tool-output.ts';
import type { TruncationPolicy } from './output/truncate.ts';
import { collectOutput } from './session/collect.ts';
import { isTakenOver, usesProgram } from './session/drivers.ts';
import { Session } from './session/session.ts';
import { SessionStore } from './session/session-store.ts';
import { sendInput } from './session/stdin.ts';
import { execWaitMs, pollWaitMs, writeWaitMs } from './wait-times.ts';

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
  readonly #detached: boolean;
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
    checkAgentOptions(options);
    this.#targets = options.targets;
    this.#onEvent = options.onEvent ?? (() => {});
    this.#policy = options.policy ?? {};
    this.#environment = { envPolicy: options.envPolicy ?? DEFAULT_ENV_POLICY, env: options.env ?? {} };
    this.#allowLogin = options.allowLogin ?? true;
    this.#detached = options.detached ?? false;
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
    checkContext('execCommand', context, EXEC_CONTEXT);
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
      detached: this.#detached,
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

  /**
   * Continues with a program of another agent, such as one whose process has ended. Returns the session id for `write_stdin`, which
   * returns the output from the first byte that the executor retains. The other agent can no longer write to the program. Rejects with
   * a ClientError when the executor does not have the program.
   */
  async reopen(ref: string, context: ReopenContext): Promise<number> {
    expectText('ref', ref, 'pass the `ref` of a result or of `list()`');
    checkContext('reopen', context, REOPEN_CONTEXT);
    const target = chooseTarget(context.targets ?? this.#targets, context.environmentId);
    this.#assertOpen('write_stdin');
    const id = this.#reserve();
    try {
      const { process, request, startedAtMs } = await reopen(target, ref, context.callId, context);
      const startedAt = this.#clock.now() - (this.#clock.epochMs() - startedAtMs);
      const turnId = context.turnId ?? null;
      const session = new Session({ id, request, turnId, process, sandboxed: false, startedAt, startedAtMs });
      if (this.#closed) await letGo(session);
      this.#assertOpen('write_stdin');
      this.#register(session);
      this.#evictSessions();
      return id;
    } finally {
      this.#sessions.cancel(id);
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
      .map(({ id, request, process }) => ({
        itemId: request.callId,
        processId: String(id),
        ref: process.process.ref,
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

  /** Terminates all programs that can be reached, except those that another agent has reopened. */
  async terminateAll(): Promise<void> {
    await Promise.allSettled(
      this.#sessions
        .all()
        .map((session) => (isTakenOver(session) ? letGo(session) : this.#terminate(session))),
    );
  }

  /**
   * Terminates all programs, except those that another agent has reopened, and rejects later calls. Resolves after the end event of every program. With `terminate: false` the
   * programs are only let go, for {@link reopen}.
   */
  async close({ terminate = true }: { readonly terminate?: boolean } = {}): Promise<void> {
    this.#closed = true;
    if (terminate) await this.terminateAll();
    else await Promise.allSettled(this.#sessions.all().map(letGo));
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

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
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
    // The first call returns before all others.
    const release = session.lock.take();
    this.#register(session);
    return { session, release };
  }

  /** Stores a session and reports its events. */
  #register(session: Session): void {
    const { process } = session;
    this.#sessions.add(session);
    usesProgram(session);
    this.#ends.set(session, this.#reportEnd(session));
    this.#emit(session.begin());
    process.streamTo((piece) => {
      const event = session.outputDelta(piece);
      if (event !== null) this.#emit(event);
    });
    process.network.streamTo((decision) => {
      if (this.#ends.has(session)) this.#emit(session.networkDecision(decision));
    });
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
    const ref = ended ? null : process.process.ref;
    const answer: ToolOutput = { ...text, exitCode, sessionId, ref, sandboxDenied, networkDenials };
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
    for (const session of this.#sessions.evict()) {
      if (isTakenOver(session)) letGo(session).catch(() => {});
      else endQuietly(session.process, this.#clock);
    }
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

/** Stops following a program, which keeps running. */
async function letGo({ process }: Session): Promise<void> {
  process.abandon('the agent is closed');
  await process.process.detach();
}

function unknownSession(id: number): ExecToolError {
  return new ExecToolError(
    'write_stdin',
    'unknownSession',
    `there is no session ${id}; it never existed, or its end has been reported`,
  );
}
