import { withTimeout } from '../../base/with-timeout.ts';
import type { ExecProcess, ProcessEvent, TerminalSize } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { type ClientError, messageWithoutHint } from '../../client/errors.ts';
import type { Host } from '../commands.ts';
import { PROGRAM_EXIT_CODES } from '../failures.ts';
import { attachCommand, detachedText, limitOf, type Place } from './endings.ts';
import { EscapeFilter } from './escapes.ts';
import { type Interruption, type Interruptions, signalExitCode, signalOf } from './interruptions.ts';
import {
  LEAVE_GRACE_MS,
  MAX_TYPED_BYTES,
  REPORT_LOSS_MS,
  REPORT_WAIT_MS,
  SECOND_INTERRUPT_MS,
  TERMINATED_WAIT_MS,
} from './limits.ts';
import type { LocalTerminal } from './local-terminal.ts';
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
    };

/** The exit code when a person detaches: an exit was not observed. */
const DETACHED = PROGRAM_EXIT_CODES.failure.code;
/** Ctrl-C, as a terminal in raw mode sends it. */
const CONTROL_C = 0x03;

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
  #terminating = false;
  #seq = 0;
  #inputDone = true;
  #saidWatching = false;
  /** Whether the server has refused to leave the program running. */
  #cannotDetach = false;

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
    this.#watchRole();
    this.#followSize();
    this.#startInput();
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
    const { client, process, output, terminal, isOnTerminal } = this.#with;
    let exited: Extract<ProcessEvent, { type: 'exited' }> | null = null;
    // A program whose output is not read waits.
    for await (const event of process.events({ signal: this.#stop.signal })) {
      if (event.type === 'closed') break;
      if (event.type === 'failed') return this.#lost(event.error);
      this.#seq = event.type === 'lost' ? event.toSeq : event.seq;
      if (event.type === 'output') {
        terminal?.modes.follow(event.bytes);
        await output.write(event.stream, event.seq, event.bytes);
      } else if (event.type === 'screen') {
        terminal?.modes.follow(event.screen.redraw);
        await output.write('pty', event.seq, event.screen.redraw);
      } else if (event.type === 'lost') {
        if (event.bytes !== 0) output.lost(event);
      } else {
        exited = event;
        if (isOnTerminal) break;
        this.#noteWaiting(event.exitCode);
      }
    }
    const exitCode = exited?.exitCode ?? process.state.exitCode;
    if (exitCode === null) throw new Error('the program has closed without an exit code');
    const reason = await limitOf(client, process, exitCode);
    const exit = { exitCode, reason, sandboxDenied: process.state.sandboxDenied };
    output.exited(exit);
    return { type: 'exited', exit };
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
    const { stdin } = host;
    const written = new ProgramInput(process);
    if (input === 'person') {
      this.#readKeys(written);
      return;
    }
    this.#cleanups.push(() => void stdin.destroy());
    this.#inputDone = false;
    written.copy(stdin).then(
      () => {
        this.#inputDone = true;
      },
      (error) => this.#fail(error),
    );
  }

  /** Passes on what a person types, without the escapes. */
  #readKeys(written: ProgramInput): void {
    const { host, terminal, process } = this.#with;
    const { stdin } = host;
    const escapes = new EscapeFilter();
    let typing: Promise<unknown> = Promise.resolve();
    let waiting = 0;
    const listen = (event: string, listener: (typed: Buffer) => void) => {
      stdin.on(event, listener);
      this.#cleanups.push(() => void stdin.off(event, listener));
    };
    listen('data', (typed) => {
      const { bytes, action } = escapes.filter(typed);
      if (!this.#drives && terminal !== null && bytes.includes(CONTROL_C)) this.#leaveAfter('SIGINT');
      if (bytes.length > 0 && !this.#drives && this.#with.wantsKeyboard) this.#sayWatching();
      if (bytes.length > 0 && this.#drives) {
        waiting += bytes.length;
        if (waiting > MAX_TYPED_BYTES) stdin.pause();
        typing = typing
          .then(() => written.write(bytes))
          .catch((error) => this.#note(`the program does not get the input: ${error.message}`))
          .finally(() => {
            waiting -= bytes.length;
            stdin.resume();
          });
      }
      if (action === 'help') this.#note(ESCAPES);
      else if (action === 'detach') this.#detach();
    });
    listen('error', () => this.#leaveAfter('SIGHUP'));
    listen('end', () => {
      if (terminal !== null) this.#leaveAfter('SIGHUP');
      else if (this.#drives) typing.then(() => process.closeStdin()).catch(() => {});
    });
    this.#cleanups.push(() => void stdin.pause());
  }

  #followSize(): void {
    const { terminal, process } = this.#with;
    if (terminal === null) return;
    let sending = false;
    let wanted: TerminalSize | null = null;
    // One at a time, so that the last size wins.
    const send = async () => {
      sending = true;
      while (wanted !== null && this.#drives) {
        const { rows, cols } = wanted;
        wanted = null;
        await process.resize(rows, cols).catch(() => {});
      }
      sending = false;
    };
    this.#cleanups.push(
      terminal.onResize((size) => {
        wanted = size;
        if (!sending) void send();
      }),
    );
  }

  /** Says that another client has taken over, or that this one drives again. */
  #watchRole(): void {
    const { process, wantsKeyboard } = this.#with;
    this.#cleanups.push(
      process.onAttachmentChange(({ role, reason, attached }) => {
        if (reason === 'takenOver' && role === 'viewer') {
          this.#note('another client has taken over; you only watch from now on');
        } else if (reason === 'driverLeft' && role === 'driver') {
          this.#drivesNow();
        } else if (
          wantsKeyboard &&
          role === 'viewer' &&
          attached.every((client) => client.role === 'viewer')
        ) {
          process.takeOver().then(
            () => this.#drivesNow(),
            () => {},
          );
        }
      }),
    );
  }

  /** Said once: the note at the beginning may be behind the screen of the program. */
  #sayWatching(): void {
    if (this.#saidWatching) return;
    this.#saidWatching = true;
    this.#note('another client has the keyboard, so keys have no effect; attach with --take-over takes it');
  }

  #drivesNow(): void {
    const { process, terminal } = this.#with;
    this.#note('the other client has left; you have the keyboard now');
    if (terminal !== null) void process.resize(terminal.size.rows, terminal.size.cols).catch(() => {});
  }

  #watchLine(): void {
    const { client, output, input, outlives, recoveryMs } = this.#with;
    const way = input === 'person' ? '~.' : 'Ctrl-C twice';
    const text = `reconnecting… (the program keeps running; ${way} ${outlives ? 'detaches' : 'gives up'})`;
    let reported = false;
    let timers: NodeJS.Timeout[] = [];
    const stopTimers = () => {
      for (const timer of timers) clearTimeout(timer);
      timers = [];
    };
    const remove = client.onStateChange((state, failure) => {
      stopTimers();
      if (state === 'recovering') {
        const report = () => {
          reported = true;
          output.line('reconnecting', text);
        };
        const giveUp = () => this.#settle(this.#lost(failure!));
        timers.push(setTimeout(report, REPORT_LOSS_MS));
        if (recoveryMs !== null) timers.push(setTimeout(giveUp, recoveryMs));
      } else if (state === 'connected' && reported) {
        reported = false;
        output.line('reconnected', 'reconnected');
        void this.#redraw();
      }
    });
    this.#cleanups.push(remove, stopTimers);
  }

  /** A change of the size makes a program on the alternate screen draw it again, over the note about the lost connection. */
  async #redraw(): Promise<void> {
    const { process, terminal } = this.#with;
    if (!terminal?.modes.isAlternate || !this.#drives) return;
    const { rows, cols } = terminal.size;
    for (const height of [Math.max(1, rows - 1), rows]) await process.resize(height, cols).catch(() => {});
  }

  #interrupted(interruption: Interruption): void {
    const { outlives, terminal } = this.#with;
    const signal = signalOf(interruption);
    if (signal === 'SIGINT' && this.#drives) this.#interrupt();
    else if (interruption === signal && this.#drives && !outlives && terminal === null) this.#send(signal);
    else this.#leaveAfter(signal);
  }

  /** Ctrl-C: the first one is the program's, the second one terminates it and everything it has started. */
  #interrupt(): void {
    const { client, process } = this.#with;
    const now = performance.now();
    const isFirst = now - this.#interruptedAt > SECOND_INTERRUPT_MS;
    this.#interruptedAt = now;
    const isReachable = client.state === 'connected';
    if (isFirst) {
      if (!isReachable) this.#note('the server cannot be reached; Ctrl-C again gives up');
      this.#send('SIGINT');
    } else if (!isReachable && client.failure !== null) {
      this.#settle(this.#lost(client.failure));
    } else if (this.#terminating) {
      this.#settle({
        type: 'left',
        exitCode: signalExitCode('SIGINT'),
        text: 'left a program that does not end',
      });
    } else {
      this.#terminating = true;
      process.terminate().catch((error) => this.#note(`cannot terminate the program: ${error.message}`));
    }
  }

  #send(signal: string): void {
    const { process, client } = this.#with;
    const name = signal === 'SIGINT' && !client.capabilities.processSignals ? 'interrupt' : signal;
    process.signal(name).catch((error) => {
      if (!process.state.exited) this.#note(`cannot send ${signal} to the program: ${error.message}`);
    });
  }

  #lost(error: ClientError): Ending {
    return { type: 'lost', error, seq: this.#seq, inputDone: this.#inputDone };
  }

  #detach(): void {
    const { client, outlives, process, place } = this.#with;
    const left = (text: string) => ({ type: 'left', exitCode: DETACHED, text }) as const;
    if (outlives) {
      this.#settle(left(detachedText(place, process.ref)));
    } else if (client.failure !== null) {
      this.#settle(this.#lost(client.failure));
    } else if (this.#cannotDetach) {
      this.#settle(this.#endProgram('SIGHUP').then(() => left('the program is ended')));
    } else {
      process.keepRunning().then(
        () => this.#settle(left(detachedText(place, process.ref))),
        (error) => {
          this.#cannotDetach = true;
          this.#note(`cannot leave the program running: ${messageWithoutHint(error)}; ~. again ends it`);
        },
      );
    }
  }

  /** Leaves because nothing reads the output or types any more. A program that does not outlive this command ends. */
  #leaveAfter(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGPIPE'): void {
    const { outlives, process, place } = this.#with;
    const exitCode = signalExitCode(signal);
    if (!outlives) {
      this.#settle(this.#endProgram(signal).then(() => ({ type: 'left', exitCode, text: null })));
      return;
    }
    const { ref } = process;
    const isSaid = signal !== 'SIGPIPE' && ref !== null && !process.state.exited;
    const text = isSaid ? `the program keeps running: '${attachCommand(place, ref)}' attaches to it` : null;
    this.#settle({ type: 'left', exitCode, text });
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

  #note(text: string): void {
    const newline = this.#with.terminal === null ? '\n' : '\r\n';
    const start = this.#with.terminal === null ? '' : newline;
    this.#with.host.stderr.write(`${start}exec-server: ${text.replaceAll('\n', newline)}${newline}`);
  }
}

const ESCAPES = `escapes at the start of a line:
  ~.  detach
  ~?  this list
  ~~  send ~`;
