import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from './wait-for.ts';

/** Whether tmux is installed. */
export const HAS_TMUX = spawnSync('tmux', ['-V']).error === undefined;

/** A terminal of tmux with a shell: a real terminal that a test types into and looks at. */
export class TmuxTerminal {
  readonly #folder = mkdtempSync(join(tmpdir(), 'exec-server-tmux-'));
  readonly #env: Readonly<Record<string, string>>;

  /** Opens a terminal of 80 columns and 24 rows with `sh`. Two words, because tmux runs a single one in another shell. */
  constructor(cwd: string, env: Readonly<Record<string, string>>) {
    this.#env = { PATH: process.env.PATH!, LANG: 'C.UTF-8', PS1: '% ', SHELL: '/bin/sh', ...env };
    this.#tmux('-f', '/dev/null', 'new-session', '-d', '-x', '80', '-y', '24', '-c', cwd, 'sh', '-i');
  }

  /** Types a line and the return key. */
  line(text: string): void {
    this.#tmux('send-keys', '-l', text);
    this.keys('Enter');
  }

  /** Types text as it is. */
  type(text: string): void {
    this.#tmux('send-keys', '-l', text);
  }

  /** Presses keys by the names of tmux: Enter, C-c, Escape. */
  keys(...names: string[]): void {
    this.#tmux('send-keys', ...names);
  }

  resize(cols: number, rows: number): void {
    this.#tmux('resize-window', '-x', String(cols), '-y', String(rows));
  }

  /** What the terminal shows, without spaces at the ends of lines. Lines that the terminal has wrapped are joined. */
  get screen(): string {
    return this.#tmux('capture-pane', '-p', '-J').replace(/ +$/gm, '').trimEnd();
  }

  /** Whether the program uses the alternate screen. */
  get isAlternate(): boolean {
    return this.#tmux('display-message', '-p', '#{alternate_on}').trim() === '1';
  }

  /** The pid of the shell in the terminal. */
  get pid(): number {
    return Number(this.#tmux('display-message', '-p', '#{pane_pid}'));
  }

  /** Waits until the screen matches. */
  async shows(pattern: RegExp | string): Promise<string> {
    let screen = '';
    const matches = () => {
      screen = this.screen;
      return typeof pattern === 'string' ? screen.includes(pattern) : pattern.test(screen);
    };
    try {
      await waitFor(`${pattern} on the screen`, matches, 15_000);
    } catch (error) {
      throw new Error(`${(error as Error).message}; it shows:\n${screen}`);
    }
    return screen;
  }

  close(): void {
    spawnSync('tmux', ['-S', join(this.#folder, 's'), 'kill-server'], { env: this.#env });
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #tmux(...args: string[]): string {
    const { stdout, stderr, status } = spawnSync('tmux', ['-S', join(this.#folder, 's'), ...args], {
      encoding: 'utf8',
      env: this.#env,
    });
    if (status !== 0) throw new Error(`tmux ${args.join(' ')}: ${stderr}`);
    return stdout;
  }
}
