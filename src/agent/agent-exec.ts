import {
  type ExecCommandArguments,
  parseExecCommand,
  parseWriteStdin,
  type WriteStdinArguments,
} from './arguments.ts';
import { ExecToolError, type ToolName } from './errors.ts';
import type { ExecEvent } from './events.ts';
import { approve, endProcess, endQuietly, isDenied, type Launch, launch } from './launch/launch.ts';
import type { ExecPolicy } from './launch/policy.ts';
import { DEFAULT_ENV_POLICY, type EnvPolicy } from './launch/program-environment.ts';
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
import { type Clock, SYSTEM_CLOCK } from './time/clock.ts';
import { PausableTime } from './time/pausable-time.ts';
import { execWindowMs, pollWindowMs, writeWindowMs } from './time/windows.ts';

/** How the tools behave. */
export interface AgentExecOptions {
  /** Where commands can run; the first is where they run unless they say otherwise. */
  readonly targets: readonly ExecTarget[];
  /** Told of everything that happens, in order. What it throws is ignored. */
  readonly onEvent?: (event: ExecEvent) => void;
  readonly policy?: ExecPolicy;
  /** What programs get of the executor's environment. */
  readonly envPolicy?: EnvPolicy;
  /** What is laid over it; the variables that every program gets come last. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether shells may read the user's profile; they do by default then. Default true. */
  readonly allowLogin?: boolean;
  /** How much the model takes. */
  readonly truncation?: TruncationPolicy;
  /** Longest look without input. */
  readonly maxPollMs?: number;
  readonly clock?: Clock;
  /** Numbers from 0 up to 1, for ids. */
  readonly random?: () => number;
}

/** Who calls `exec_command`. */
export interface ExecContext {
  /** Names the call in all events of the program. */
  readonly callId: string;
  readonly turnId?: string;
  readonly threadId?: string;
  readonly agentSessionId?: string;
  /** The places that this call can choose from, in the place of the usual ones. */
  readonly targets?: readonly ExecTarget[];
  /** Ends the call. A program that was started runs on and keeps its output for the next look. */
  readonly signal?: AbortSignal;
}

/** Who calls `write_stdin`. */
export type WriteContext = Pick<ExecContext, 'signal'>;

/** A program that runs. */
export interface RunningProgram {
  readonly itemId: string;
  readonly processId: string;
  readonly command: readonly string[];
  readonly cwd: string;
}

/**
 * The tools with which a model runs programs, over any backend. A call watches its program for a while and returns what it has
 * written; a program that takes longer goes on as a session, and each look returns what no look has returned before.
 *
 * Failed calls reject with an {@link ExecToolError}; what a policy throws passes unchanged.
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
  readonly #time: PausableTime;
  readonly #sessions: SessionStore<Session>;
  /** The end of every program that has not been reported yet. */
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
    this.#time = new PausableTime(this.#clock);
    this.#sessions = new SessionStore(this.#random);
  }

  /** Runs a command. The arguments are an object, or the JSON text of one as a model writes it. */
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
      // From here on the id is the session's, or free again.
      const starting = this.#start(call, context.turnId ?? null);
      const { session, release } = await starting.finally(() => this.#sessions.cancel(sessionId));
      return await this.#firstLook(session, release, {
        windowMs: execWindowMs(parsed.yield_time_ms, target.shell.name),
        maxTokens: parsed.max_output_tokens ?? limits.DEFAULT_OUTPUT_TOKENS,
        signal,
      });
    } catch (error) {
      throw this.#asToolError('exec_command', error, signal, sessionId);
    }
  }

  /** Types into a program, or looks at it. The arguments are an object, or the JSON text of one as a model writes it. */
  async writeStdin(args: WriteStdinArguments | string, context: WriteContext = {}): Promise<ToolOutput> {
    const parsed = parseWriteStdin(args);
    const signal = context.signal ?? new AbortController().signal;
    this.#assertOpen('write_stdin');
    const session = this.#sessionOf(parsed.session_id);
    this.#sessions.touch(session);
    try {
      const release = await this.#lock(session, signal);
      try {
        // Somebody else may have seen its end meanwhile.
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

  /** Stops the time of all calls, as long as the user is asked something. Returns what lets it go on. */
  pause(): () => void {
    return this.#time.pause();
  }

  /** The programs that run, in the order of their ids. */
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

  /** Ends a program and gives up its session. False when there is none; rejects when it cannot be ended. */
  async terminate(sessionId: number): Promise<boolean> {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return false;
    await this.#terminate(session);
    return true;
  }

  /** Ends all programs, as far as they can be reached. */
  async terminateAll(): Promise<void> {
    await Promise.allSettled(this.#sessions.all().map((session) => this.#terminate(session)));
  }

  /** Ends all programs and refuses calls from now on. Resolves when the end of every program has been told. */
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
    for (const { process } of this.#ends.keys()) process.giveUp('the agent has ended');
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
      process.giveUp('the agent has ended');
      this.#assertOpen('exec_command');
    }
    const { request, sessionId: id } = call;
    const session = new Session({ id, request, turnId, process, sandboxed, startedAt, startedAtMs });
    // Known before anything is waited for: an interrupted call must not lose it. The first look comes before all others.
    this.#sessions.add(session);
    const release = session.lock.take();
    this.#ends.set(session, this.#reportEnd(session));
    this.#emit(session.begin());
    process.streamTo((piece) => {
      const event = session.outputDelta(piece);
      if (event !== null) this.#emit(event);
    });
    return { session, release };
  }

  async #firstLook(session: Session, release: () => void, look: Look): Promise<ToolOutput> {
    const deadline = this.#time.now() + look.windowMs;
    try {
      const output = await collectOutput(session.process, { ...this.#window(look.signal), deadline });
      return this.#answer('exec_command', session, output, session.startedAt, look.maxTokens);
    } finally {
      release();
      // Programs that end in the meantime need no room, so nothing is given up for them.
      this.#makeRoom();
      await this.#endReported(session, look.signal);
    }
  }

  async #interact(session: Session, args: WriteStdinArguments, signal: AbortSignal): Promise<ToolOutput> {
    const startedAt = this.#clock.now();
    const { process } = session;
    const chars = args.chars ?? '';
    const window = this.#window(signal);
    const sent = chars !== '' && (await sendInput(session, chars, window));
    if (sent) this.#emit(session.terminalInteraction(chars));
    const windowMs =
      chars === '' ? pollWindowMs(args.yield_time_ms, this.#maxPollMs) : writeWindowMs(args.yield_time_ms);
    const output = await collectOutput(process, { ...window, deadline: this.#time.now() + windowMs });
    if (!sent && !process.state.ended) this.#emit(session.terminalInteraction(''));
    const maxTokens = args.max_output_tokens ?? limits.DEFAULT_OUTPUT_TOKENS;
    return this.#answer('write_stdin', session, output, startedAt, maxTokens);
  }

  /** What a call has to say; rejects when the program was lost. A session of which nothing more will come is given up. */
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
    };
    const text = modelText(facts, maxTokens, this.#truncation);
    const sandboxDenied = ended && isDenied(process, sandboxed);
    const answer: ToolOutput = { ...text, exitCode, sessionId, sandboxDenied };
    if (!ended) return answer;
    this.#sessions.remove(session);
    if (failureMessage === null) return answer;
    endQuietly(process, this.#clock);
    throw new ExecToolError(tool, 'processFailed', failureMessage, { output: answer });
  }

  /** Tells the end of a program, once, when nobody deals with it. */
  async #reportEnd(session: Session): Promise<void> {
    await session.process.ended;
    const release = await session.lock.acquire();
    this.#emit(session.end(this.#clock.now(), this.#clock.epochMs(), this.#truncation));
    this.#ends.delete(session);
    release();
  }

  /** A call that has seen the end of a program returns behind the event that tells it. */
  async #endReported(session: Session, signal: AbortSignal): Promise<void> {
    if (session.process.state.ended && !signal.aborted) await this.#ends.get(session);
  }

  async #terminate(session: Session): Promise<void> {
    await endProcess(session.process, this.#clock);
    // A call that is under way sees the end and gives the session up itself.
    if (!session.busy) this.#sessions.remove(session);
  }

  #makeRoom(): void {
    for (const { process } of this.#sessions.evict()) endQuietly(process, this.#clock);
  }

  async #lock(session: Session, signal: AbortSignal): Promise<() => void> {
    if (session.lock.waiting >= limits.MAX_WAITING_CALLS) {
      throw new ExecToolError('write_stdin', 'overloaded', 'too many calls wait for this session');
    }
    return session.lock.acquire(signal);
  }

  #reserve(): number {
    const id = this.#sessions.reserve();
    if (id !== null) return id;
    throw new ExecToolError(
      'exec_command',
      'overloaded',
      `${limits.MAX_BUSY_SESSIONS} commands are under way; wait until some have ended`,
    );
  }

  #sessionOf(id: number): Session {
    const session = this.#sessions.get(id);
    if (session === undefined) throw unknownSession(id);
    return session;
  }

  #assertOpen(tool: ToolName): void {
    if (this.#closed) throw new ExecToolError(tool, 'closed', 'no commands can be run any more');
  }

  #asToolError(tool: ToolName, error: unknown, signal: AbortSignal, sessionId: number): unknown {
    if (error instanceof ExecToolError || !signal.aborted) return error;
    const kept = this.#sessions.get(sessionId) === undefined ? undefined : sessionId;
    return new ExecToolError(tool, 'aborted', 'the call was aborted', { cause: error, sessionId: kept });
  }

  #window(signal: AbortSignal) {
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
      // A listener that fails must not end programs or calls.
    }
  }
}

interface Look {
  readonly windowMs: number;
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
