import { setTimeout as delay } from 'node:timers/promises';
import { withTimeout } from '../../base/with-timeout.ts';
import type { ExecProcess, ProcessEvent } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { ClientError, messageWithoutHint } from '../../client/errors.ts';
import type { Host } from '../commands.ts';
import { PROGRAM_EXIT_CODES } from '../failures.ts';
import { attachCommand, detachedText, exitOf, limitOf, type Place } from './endings.ts';
import {
  type Interruption,
  type InterruptionSignal,
  type Interruptions,
  signalExitCode,
  signalOf,
} from './interruptions.ts';
import { followSize, readKeys, watchRole } from './keyboard.ts';
import {
  DETACH_WAIT_MS,
  LEAVE_GRACE_MS,
  REPORT_WAIT_MS,
  SECOND_INTERRUPT_MS,
  TERMINATED_WAIT_MS,
} from './limits.ts';
import { isServerGone, reconnectingText, watchDraining, watchLine } from './line-watch.ts';
import type { LocalTerminal } from './local-terminal.ts';
import type { OutputLosses } from './output-losses.ts';
import { ProgramInput } from './program-input.ts';
import type { ProgramExit, ProgramOutput } from './program-output.ts';

/** A program that is followed to its end, and how. */
export interface Followed {
  readonly client: ExecServerClient;
  readonly process: ExecProcess;
  readonly place: Place;
  readonly host: Host;
  readonly interruptions: Interruptions;
  readonly output: ProgramOutput;
  /** The terminal of this command in raw mode; null without one. */
  readonly terminal: LocalTerminal | null;
  /** Where the input of the program comes from: a stream, or a person, whose escapes are recognised. */
  readonly input: 'none' | 'stream' | 'person';
  /** Whether the program is on a terminal: then its exit ends it, whatever it has left in the background. */
  readonly isOnTerminal: boolean;
  /** Whether the program outlives this client. */
  readonly outlives: boolean;
  /** Whether a client that watches becomes the driver when no other client is. */
  readonly wantsKeyboard: boolean;
  /** How long to wait for a lost connection; null for no limit. */
  readonly recoveryMs: number | null;
  /** Whether it was followed before, in a session that the server has forgotten. */
  readonly isResumed: boolean;
  /** Counts what could not be shown. */
  readonly losses: OutputLosses;
  /** What a person should know as soon as the screen of the program is drawn. */
  readonly noteAfterScreen?: string | null;
}

/** How following ended. */
export type Ending =
  | { readonly type: 'exited'; readonly exit: ProgramExit }
  /** This command has left the program, on purpose. */
  | { readonly type: 'left'; readonly exitCode: number; readonly text: string | null }
  /** The program can no longer be followed. */
  | {
      readonly type: 'lost';
      readonly error: ClientError;
      /** The last event that was shown. */
      readonly seq: number;
      /** Whether no input may have been lost: there was none, or all of it has arrived. */
      readonly inputDone: boolean;
      /** Whether the private server of this machine has ended. */
      readonly isServerGone: boolean;
    };

/** The exit code when a person detaches: an exit was not observed. */
const DETACHED = PROGRAM_EXIT_CODES.failure.code;

const UNREACHABLE = 'the server cannot be reached; Ctrl-C again gives up';

/** Shows the output of a program, and passes input, signals and the size of the terminal on, until it ends or is left. */
export function follow(followed: Followed): Promise<Ending> {
  return new Follower(followed).run();
}

class Follower {
  readonly #with: Followed;
  readonly #stop = new AbortController();
  readonly #cleanups: (() => void)[] = [];
  #settle: (ending: Ending | Promise<Ending>) => void = () => {};
  #fail: (error: unknown) => void = () => {};
  #interruptedAt = Number.NEGATIVE_INFINITY;
  /** Whether the server has not answered yet that it keeps the program running. */
  #isDetaching = false;
  /** Whether a person knows that the connection is lost. */
  #isLossReported = false;
  #terminating = false;
  /** Whether the reader of the output is waited for. */
  #isWriting = false;
  #watchesReader = false;
  #seq = 0;
  #inputDone = true;
  /** Whether the server has refused to leave the program running. */
  #cannotDetach = false;
  /** Why the connection was given up. */
  #gaveUp: { readonly error: ClientError; readonly isServerGone: boolean } | null = null;

  constructor(followed: Followed) {
    this.#with = followed;
  }

  async run(): Promise<Ending> {
    const { interruptions, output } = this.#with;
    const left = new Promise<Ending>((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
    });
    interruptions.handleWith((interruption) => this.#interrupted(interruption));
    this.#watchLine();
    this.#cleanups.push(watchRole(this.#with, this.#note), followSize(this.#with));
    this.#cleanups.push(watchDraining(this.#with.client, this.#note));
    this.#startInput();
    if (this.#with.isResumed) void this.#refresh();
    void output.readerGone.then(() => this.#leaveAfter('SIGPIPE'));
    try {
      return await Promise.race([left, this.#show()]);
    } catch (error) {
      if (!this.#with.outlives) await this.#endProgram('SIGTERM');
      throw error;
    } finally {
      this.#stop.abort();
      for (const cleanup of this.#cleanups) cleanup();
    }
  }

  get #drives(): boolean {
    return this.#with.process.role === 'driver';
  }

  /** Shows the events of the program until the last one. */
  async #show(): Promise<Ending> {
    const { client, process, output, terminal, isOnTerminal, losses, noteAfterScreen = null } = this.#with;
    let exited: Extract<ProcessEvent, { type: 'exited' }> | null = null;
    // A program whose output is not read waits.
    for await (const event of process.events({ signal: this.#stop.signal })) {
      if (event.type === 'closed') break;
      if (event.type === 'failed') {
        return this.#gaveUp === null
          ? this.#lost(event.error)
          : this.#lost(this.#gaveUp.error, this.#gaveUp.isServerGone);
      }
      this.#seq = event.type === 'lost' ? event.toSeq : event.seq;
      if (event.type === 'output') {
        terminal?.modes.follow(event.bytes);
        await this.#written(output.write(event.stream, event.seq, event.bytes));
      } else if (event.type === 'screen') {
        terminal?.modes.follow(event.screen.redraw);
        await this.#written(output.write('pty', event.seq, event.screen.redraw));
        // On the alternate screen it would move what the program draws; there the first key shows it.
        if (noteAfterScreen !== null && !terminal?.modes.isAlternate) this.#note(noteAfterScreen);
      } else if (event.type === 'lost') {
        losses.add(event);
        if (event.bytes !== 0) output.lost(event);
      } else {
        exited = event;
        if (isOnTerminal) break;
        this.#noteWaiting(event.exitCode);
      }
    }
    const exitCode = exited?.exitCode ?? process.state.exitCode;
    if (exitCode === null) throw new Error('the program has closed without an exit code');
    const reason = process.state.reason ?? (await limitOf(client, process, exitCode));
    const exit = { exitCode, reason, sandboxDenied: process.state.sandboxDenied };
    output.exited(exit);
    return { type: 'exited', exit };
  }

  async #written(write: Promise<void>): Promise<void> {
    this.#isWriting = true;
    await write;
    this.#isWriting = false;
  }

  /** Says why the command does not end although the program has: others may wait for the end of its output. */
  #noteWaiting(exitCode: number): void {
    if (!this.#with.host.isTerminal) return;
    const text = `the program has exited with ${exitCode}; its output is still open in processes that it has left behind (Ctrl-C twice ends them)`;
    const timer = setTimeout(() => this.#note(text), REPORT_WAIT_MS);
    this.#cleanups.push(() => clearTimeout(timer));
  }

  #startInput(): void {
    const { input, process, host } = this.#with;
    if (input === 'none') return;
    if (input === 'person') {
      const detach = () => this.#detach();
      const leave = (signal: 'SIGINT' | 'SIGHUP') => this.#leaveAfter(signal);
      const interrupt = () => this.#interruptKey();
      this.#cleanups.push(readKeys(this.#with, { detach, leave, interrupt, note: this.#note }));
      return;
    }
    const { stdin } = host;
    this.#cleanups.push(() => void stdin.destroy());
    this.#inputDone = false;
    new ProgramInput(process).copy(stdin).then(
      () => {
        this.#inputDone = true;
      },
      (error) => this.#fail(error),
    );
  }

  #watchLine(): void {
    const { client, output, input, outlives, recoveryMs } = this.#with;
    const text = reconnectingText(
      input === 'person' ? '~. detaches' : `Ctrl-C twice ${outlives ? 'detaches' : 'gives up'}`,
    );
    const stop = watchLine(
      client,
      {
        lost: () =>
          void this.#isServerGone().then((isGone) => {
            if (isGone && client.failure !== null) this.#giveUp(client.failure, true);
            else if (client.state !== 'connected') {
              this.#isLossReported = true;
              output.line('reconnecting', text);
            }
          }),
        restored: () => {
          this.#isLossReported = false;
          output.line('reconnected', 'reconnected');
          void this.#refresh();
        },
        gaveUp: (failure) => void this.#isServerGone().then((isGone) => this.#giveUp(failure, isGone)),
      },
      recoveryMs,
    );
    this.#cleanups.push(stop);
  }

  /**
   * Sends the size of the terminal, which may have changed while the connection was lost. A change of the size makes a program on the
   * alternate screen draw it again, over the note about the lost connection.
   */
  async #refresh(): Promise<void> {
    const { process, terminal } = this.#with;
    if (terminal === null || !this.#drives) return;
    const { rows, cols } = terminal.size;
    const heights = terminal.modes.isAlternate ? [Math.max(1, rows - 1), rows] : [rows];
    for (const height of heights) await process.resize(height, cols).catch(() => {});
  }

  #interrupted(interruption: Interruption): void {
    const { outlives, terminal } = this.#with;
    const signal = signalOf(interruption);
    if (signal === 'SIGINT' && this.#drives) this.#interrupt();
    else if (interruption === signal && this.#drives && !outlives && terminal === null) this.#send(signal);
    else {
      this.#leaveAfter(signal);
      return;
    }
    this.#leaveStoppedReader(signal).catch(() => {});
  }

  /** Leaves the rest of the output when the program has exited after a signal, and the reader takes nothing. */
  async #leaveStoppedReader(signal: InterruptionSignal): Promise<void> {
    if (this.#watchesReader) return;
    this.#watchesReader = true;
    for (let seq = -1; ; ) {
      const isStopped = this.#isWriting && seq === this.#seq;
      if (isStopped && (await this.#hasExited())) break;
      seq = this.#seq;
      await delay(LEAVE_GRACE_MS, undefined, { signal: this.#stop.signal });
    }
    this.#settle({ type: 'left', exitCode: signalExitCode(signal), text: null });
  }

  /** Whether the program has exited. The event of its exit may wait behind output. */
  async #hasExited(): Promise<boolean> {
    const { client, process } = this.#with;
    return process.state.exited || ((await exitOf(client, process))?.exited ?? false);
  }

  /** Ctrl-C: the first one is the program's, the second one terminates it and everything it has started. */
  #interrupt(): void {
    const { client, process } = this.#with;
    const isReachable = client.state === 'connected';
    if (this.#isFirstInterrupt()) {
      if (!isReachable) this.#note(UNREACHABLE);
      this.#send('SIGINT');
    } else if (!isReachable && client.failure !== null) {
      this.#settle(this.#lost(client.failure));
    } else if (this.#terminating) {
      const left = (hasExited: boolean): Ending => ({
        type: 'left',
        exitCode: signalExitCode('SIGINT'),
        text: hasExited ? null : 'left a program that does not end',
      });
      this.#settle(this.#hasExited().then(left));
    } else {
      this.#terminating = true;
      process.terminate().catch((error) => this.#note(`cannot terminate the program: ${error.message}`));
    }
  }

  /** Ctrl-C on a terminal is a key of the program. Where nothing reaches the program, the second one gives up. */
  #interruptKey(): void {
    const { failure } = this.#with.client;
    if (!this.#isLossReported || failure === null) return;
    if (this.#isFirstInterrupt()) this.#note(UNREACHABLE);
    else this.#settle(this.#lost(failure));
  }

  #isFirstInterrupt(): boolean {
    const now = performance.now();
    const isFirst = now - this.#interruptedAt > SECOND_INTERRUPT_MS;
    this.#interruptedAt = now;
    return isFirst;
  }

  #send(signal: string): void {
    const { process, client } = this.#with;
    const name = signal === 'SIGINT' && !client.capabilities.processSignals ? 'interrupt' : signal;
    process.signal(name).catch((error) => {
      if (!process.state.exited) this.#note(`cannot send ${signal} to the program: ${error.message}`);
    });
  }

  /** Gives the connection up. What has arrived before is shown first, and may be all of the output and the exit. */
  #giveUp(error: ClientError, isServerGone: boolean): void {
    this.#gaveUp ??= { error, isServerGone };
    void this.#with.client.close();
  }

  #lost(error: ClientError, isServerGone = false): Ending {
    return { type: 'lost', error, seq: this.#seq, inputDone: this.#inputDone, isServerGone };
  }

  #isServerGone(): Promise<boolean> {
    return isServerGone(this.#with.place.target, this.#with.host.env);
  }

  #detach(): void {
    const { client, outlives, process, place } = this.#with;
    const left = (text: string) => ({ type: 'left', exitCode: DETACHED, text }) as const;
    if (outlives) {
      this.#settle(left(detachedText(place, process.ref, client.state === 'connected')));
    } else if (client.failure !== null || this.#isDetaching) {
      this.#settle(left(detachedText(place, process.ref, false)));
    } else if (this.#cannotDetach) {
      this.#settle(this.#endProgram('SIGHUP').then(() => left('the program is ended')));
    } else {
      this.#isDetaching = true;
      const timer = setTimeout(
        () => this.#note('the server does not answer; ~. again gives up'),
        DETACH_WAIT_MS,
      );
      const answered = () => {
        clearTimeout(timer);
        this.#isDetaching = false;
      };
      process.keepRunning().then(
        () => {
          answered();
          this.#settle(left(detachedText(place, process.ref, true)));
        },
        (error) => {
          answered();
          // This command has given up, and its client is closed.
          if (this.#stop.signal.aborted) return;
          if (error instanceof ClientError && error.kind === 'brokenPipe') {
            this.#detach();
            return;
          }
          this.#cannotDetach = true;
          this.#note(`cannot leave the program running: ${messageWithoutHint(error)}; ~. again ends it`);
        },
      );
    }
  }

  /** Leaves because nothing reads the output or types any more. A program that does not outlive this command ends. */
  #leaveAfter(signal: InterruptionSignal | 'SIGPIPE'): void {
    const { outlives, process, place, output } = this.#with;
    const { failure } = output;
    const exitCode = failure === null ? signalExitCode(signal) : PROGRAM_EXIT_CODES.failure.code;
    const left = (text: string | null): Ending => {
      const parts = [failure?.message, text].filter((part) => part != null);
      return { type: 'left', exitCode, text: parts.length === 0 ? null : parts.join('; ') };
    };
    if (!outlives && this.#with.client.state !== 'connected' && !process.state.exited) {
      this.#settle(left(detachedText(place, process.ref, false)));
      return;
    }
    if (!outlives) {
      this.#settle(
        this.#endProgram(signal).then(() => left(failure === null ? null : 'the program is ended')),
      );
      return;
    }
    const { ref } = process;
    const isSaid = (signal !== 'SIGPIPE' || failure !== null) && ref !== null && !process.state.exited;
    this.#settle(
      left(isSaid ? `the program keeps running: '${attachCommand(place, ref)}' attaches to it` : null),
    );
  }

  /** Ends the program like a local one whose terminal or reader is gone, and terminates it if that does not help. */
  async #endProgram(signal: string): Promise<void> {
    const { client, process } = this.#with;
    // A server that cannot be reached ends the program with its session.
    if (process.state.exited || client.state !== 'connected') return;
    const ask = async () => {
      await process.signal(signal);
      await process.wait({ until: 'exited' });
    };
    await withTimeout(
      ask().catch(() => {}),
      LEAVE_GRACE_MS,
    );
    if (!process.state.exited)
      await withTimeout(
        process.terminate().catch(() => {}),
        TERMINATED_WAIT_MS,
      );
  }

  readonly #note = (text: string): void => this.#with.output.note(text);
}
