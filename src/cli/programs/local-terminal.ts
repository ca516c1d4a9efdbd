import { spawnSync } from 'node:child_process';
import type { ReadStream, WriteStream } from 'node:tty';
import type { TerminalSize } from '../../client/backend.ts';
import type { Host } from '../commands.ts';
import { isForeground } from '../foreground.ts';
import { ORPHAN_CHECK_MS } from './limits.ts';
import { ScreenModes } from './screen-modes.ts';

/**
 * The terminal of this command in raw mode: every key goes to the program. It is back in its old state on every way out of this
 * process, except SIGKILL to itself.
 */
export class LocalTerminal {
  readonly modes = new ScreenModes();
  readonly #stdin: ReadStream;
  readonly #stdout: WriteStream;
  #isRaw = false;

  constructor(host: Pick<Host, 'stdin' | 'stdout' | 'onExit'>) {
    this.#stdin = host.stdin as ReadStream;
    this.#stdout = host.stdout as WriteStream;
    host.onExit(() => this.restore());
    // Before the error is printed, whose newlines would not return to the first column.
    process.prependListener('uncaughtException', () => this.restore());
  }

  get size(): TerminalSize {
    const { rows, columns } = this.#stdout;
    return { rows: rows || 24, cols: columns || 80 };
  }

  enterRawMode(): void {
    this.#isRaw = true;
    this.#setRaw();
    hangUpWhenOrphaned();
    // A shell that continues a stopped job restores the modes that it knows, not those of this program.
    process.on('SIGCONT', () => {
      if (!this.#isRaw) return;
      this.#stdin.setRawMode(false);
      this.#setRaw();
      this.#stdout.emit('resize');
    });
  }

  /** Calls back with the new size. Returns a function that removes the listener. */
  onResize(listener: (size: TerminalSize) => void): () => void {
    const resized = () => listener(this.size);
    this.#stdout.on('resize', resized);
    return () => void this.#stdout.off('resize', resized);
  }

  /** Leaves raw mode, and switches off what a program that still runs has switched on. */
  restore(): void {
    if (!this.#isRaw) return;
    this.#isRaw = false;
    const reset = this.modes.reset();
    // stdout of a terminal is written synchronously.
    if (reset !== '') this.#stdout.write(reset);
    // The system refuses it to a process that is no longer in the foreground. Then Node does it when the process exits.
    this.#stdin.on('error', () => {});
    this.#stdin.setRawMode(false);
  }

  #setRaw(): void {
    this.#stdin.setRawMode(true);
    // Node keeps the translation of newlines. Programs move the cursor down with a newline, which must not return to the first column.
    spawnSync('stty', ['-opost'], { stdio: [0, 'ignore', 'ignore'] });
  }
}

/**
 * Sends this process SIGHUP when its parent is gone and the terminal has another process group in the foreground: a shell has taken the
 * terminal back after its job was killed. The system sends no signal then.
 */
function hangUpWhenOrphaned(): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent || isForeground()) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGHUP');
  }, ORPHAN_CHECK_MS);
  timer.unref();
}
