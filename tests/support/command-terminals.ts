import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CLI } from '../unit/cli/run-cli.ts';
import { CommandUser } from './private-server.ts';
import { TmuxTerminal } from './tmux.ts';
import { waitFor } from './wait-for.ts';

/** A user of commands at terminals, whose shell finds `exec-server`. */
export class CommandTerminals {
  readonly user = new CommandUser();
  readonly #terminals: TmuxTerminal[] = [];

  constructor() {
    const bin = this.at('bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'exec-server'), `#!/bin/sh\nexec ${process.execPath} ${CLI} "$@"\n`);
    chmodSync(join(bin, 'exec-server'), 0o755);
  }

  /** A path in the home of the user. */
  at(name: string): string {
    return join(this.user.workspace.path, name);
  }

  /** Opens a terminal with a shell. */
  open(env: Readonly<Record<string, string>> = {}): TmuxTerminal {
    const home = this.user.workspace.path;
    const PATH = `${this.at('bin')}:${process.env.PATH}`;
    const terminal = new TmuxTerminal(home, { ...this.user.env, PATH, HOME: home, ENV: '', ...env });
    this.#terminals.push(terminal);
    return terminal;
  }

  /** Waits until a file in the home has content, and returns it. */
  content(name: string): Promise<string> {
    const path = this.at(name);
    return waitFor(name, () => (existsSync(path) ? readFileSync(path, 'utf8').trim() : ''));
  }

  closeTerminals(): void {
    for (const terminal of this.#terminals.splice(0)) terminal.close();
  }

  async close(): Promise<void> {
    this.closeTerminals();
    await this.user.close();
  }
}

/** The pid of the command that runs in a terminal. */
export async function commandPid({ pid }: TmuxTerminal): Promise<number> {
  return Number(await waitFor('the command', () => childrenOf(pid)[0]));
}

/** The pids of the children of a process. */
export function childrenOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
}
