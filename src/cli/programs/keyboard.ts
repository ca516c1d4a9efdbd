import type { TerminalSize } from '../../client/backend.ts';
import { EscapeFilter } from './escapes.ts';
import type { Followed } from './follow.ts';
import { MAX_TYPED_BYTES } from './limits.ts';
import { ProgramInput } from './program-input.ts';

/** What a person does besides typing for the program. */
interface KeyboardEvents {
  /** `~.` */
  detach(): void;
  /** The terminal is gone, or Ctrl-C ends a watcher. */
  leave(signal: 'SIGINT' | 'SIGHUP'): void;
  /** Ctrl-C of a client that drives a program on a terminal. The program gets it as a key. */
  interrupt(): void;
  /** Says something to the person. */
  note(text: string): void;
}

/** Ctrl-C, as a terminal in raw mode sends it. */
const CONTROL_C = 0x03;

/** Passes on what a person types, without the escapes. Returns a function that ends that. */
export function readKeys(followed: Followed, { detach, leave, interrupt, note }: KeyboardEvents): () => void {
  const { host, terminal, process, wantsKeyboard } = followed;
  const { stdin } = host;
  const written = new ProgramInput(process);
  const escapes = new EscapeFilter();
  const drives = () => process.role === 'driver';
  const cleanups: (() => void)[] = [() => void stdin.pause()];
  let typing: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let saidWatching = false;
  // Said once: the note at the beginning may be behind the screen of the program.
  const sayWatching = () => {
    if (saidWatching) return;
    saidWatching = true;
    note(
      wantsKeyboard
        ? 'another client has the keyboard, so keys have no effect; attach with --take-over takes it'
        : WATCHING,
    );
  };
  const pass = (bytes: Uint8Array) => {
    waiting += bytes.length;
    if (waiting > MAX_TYPED_BYTES) stdin.pause();
    typing = typing
      .then(() => written.write(bytes))
      .catch((error) => note(`the program does not get the input: ${error.message}`))
      .finally(() => {
        waiting -= bytes.length;
        stdin.resume();
      });
  };
  const listen = (event: string, listener: (typed: Buffer) => void) => {
    stdin.on(event, listener);
    cleanups.push(() => void stdin.off(event, listener));
  };
  listen('data', (typed) => {
    const { bytes, action } = escapes.filter(typed, !drives());
    if (terminal !== null && bytes.includes(CONTROL_C)) {
      if (drives()) interrupt();
      else leave('SIGINT');
    }
    if (bytes.length > 0 && !drives() && !bytes.includes(CONTROL_C)) sayWatching();
    if (bytes.length > 0 && drives()) pass(bytes);
    if (action === 'help') note(ESCAPES);
    else if (action === 'detach') detach();
  });
  listen('error', () => leave('SIGHUP'));
  listen('end', () => {
    if (terminal !== null) leave('SIGHUP');
    else if (drives()) typing.then(() => process.closeStdin()).catch(() => {});
  });
  // Paused where the keys were read before, in an earlier session.
  stdin.resume();
  return () => {
    for (const cleanup of cleanups) cleanup();
  };
}

/** What a client with --read-only says. */
export const WATCHING = 'watching; Ctrl-C leaves';

/** Gives the terminal of the program the size of the person's. Returns a function that ends that. */
export function followSize({ terminal, process }: Pick<Followed, 'terminal' | 'process'>): () => void {
  if (terminal === null) return () => {};
  let isSending = false;
  let wanted: TerminalSize | null = null;
  // One at a time, so that the last size wins.
  const send = async () => {
    isSending = true;
    while (wanted !== null && process.role === 'driver') {
      const { rows, cols } = wanted;
      wanted = null;
      await process.resize(rows, cols).catch(() => {});
    }
    isSending = false;
  };
  return terminal.onResize((size) => {
    wanted = size;
    if (!isSending) void send();
  });
}

/**
 * Says that another client has taken over, or that this one drives again. Takes the keyboard when no client has it, if that is wanted.
 * Returns a function that ends that.
 */
export function watchRole(
  { process, terminal, wantsKeyboard }: Pick<Followed, 'process' | 'terminal' | 'wantsKeyboard'>,
  note: (text: string) => void,
): () => void {
  const drivesNow = () => {
    note('the other client has left; you have the keyboard now');
    if (terminal !== null) void process.resize(terminal.size.rows, terminal.size.cols).catch(() => {});
  };
  return process.onAttachmentChange(({ role, reason, attached }) => {
    if (reason === 'takenOver' && role === 'viewer') {
      note('another client has taken over; you only watch from now on');
    } else if (reason === 'driverLeft' && role === 'driver') {
      drivesNow();
    } else if (wantsKeyboard && role === 'viewer' && attached.every((client) => client.role === 'viewer')) {
      process.takeOver().then(drivesNow, () => {});
    }
  });
}

const ESCAPES = `escapes at the start of a line:
  ~.  detach
  ~?  this list
  ~~  send ~`;
