import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { type Readable, Writable } from 'node:stream';
import { notify } from '../base/listeners.ts';
import { withTimeout } from '../base/with-timeout.ts';
import { COMMAND_END_TIMEOUT_MS, COMMAND_STATUS_TIMEOUT_MS, STDERR_LINE_MAX_BYTES } from './limits.ts';
import { StdioTransport } from './stdio.ts';
import { CloseCode, type CloseReason, type Transport, type TransportEvents } from './transport.ts';

/** A program that speaks the protocol on its stdin and stdout. */
interface StdioCommand {
  readonly program: string;
  readonly args?: readonly string[];
  /** Environment variables, added to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Called with each line of the program's stderr. */
  readonly onStderr?: (line: string) => void;
  readonly maxMessageBytes: number;
}

/** Starts the program in its own process group. Rejects with the system's error when it cannot be started. */
export async function openStdioCommand(command: StdioCommand): Promise<Transport> {
  const child = spawn(command.program, [...(command.args ?? [])], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    env: { ...inheritableEnv(), ...command.env },
    cwd: command.cwd,
  });
  await once(child, 'spawn');
  return new StdioCommandTransport(child, command);
}

/** Credentials of other programs, which a server started here must not see. */
const NEVER_INHERITED: ReadonlySet<string> = new Set([
  'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN',
  'NODE_REPL_AUTH_TOKEN',
  'OPENAI_FEDERATION_RULE_ID',
  'OPENAI_IDENTITY_TOKEN_FILE',
  'OPENAI_WORKLOAD_IDENTITY_CONTEXT',
]);

function inheritableEnv(): NodeJS.ProcessEnv {
  const variables = Object.entries(process.env).filter(([name]) => !NEVER_INHERITED.has(name.toUpperCase()));
  return Object.fromEntries(variables);
}

/** The stdio of a child process. The child ends with the transport: first SIGTERM, then SIGKILL. */
class StdioCommandTransport implements Transport {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #stdio: StdioTransport;
  readonly #program: string;
  readonly #stderr: StderrLines;
  /** Resolves when the child has exited and its streams have ended. */
  readonly #gone: Promise<void>;
  #ending = false;

  constructor(child: ChildProcessByStdio<Writable, Readable, Readable>, command: StdioCommand) {
    this.#child = child;
    this.#program = command.program;
    this.#gone = new Promise((resolve) => child.once('close', () => resolve()));
    this.#stdio = new StdioTransport(child.stdout, this.#input(), {
      maxMessageBytes: command.maxMessageBytes,
    });
    this.#stderr = new StderrLines(child.stderr, command.onStderr ?? (() => {}));
    // Ends the processes that the child leaves behind in its group.
    child.once('exit', () => this.#kill('SIGKILL'));
  }

  open(events: TransportEvents): void {
    this.#stdio.open({
      message: (text) => events.message(text),
      undecodable: (reason) => events.undecodable(reason),
      drained: () => events.drained(),
      ended: () => void this.#ended(),
      closed: (reason) => {
        this.#endChild();
        events.closed(reason);
      },
    });
  }

  send(message: string | Uint8Array): boolean {
    return this.#stdio.send(message);
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean {
    return this.#stdio.sendPart(part, last, released);
  }

  /** A program whose stdin ends because Node exits ends by itself. */
  unref(): void {
    const { stdin, stdout, stderr } = this.#child;
    this.#child.unref();
    for (const pipe of [stdin, stdout, stderr]) if (pipe instanceof Socket) pipe.unref();
  }

  setReceiving(receiving: boolean): void {
    this.#stdio.setReceiving(receiving);
  }

  close(reason: CloseReason): void {
    this.#stdio.close(reason);
    this.#endChild();
  }

  /**
   * A write error does not end the transport, because the program may have written output before it exited. The end
   * of its output decides.
   */
  #input(): Writable {
    const { stdin } = this.#child;
    stdin.on('error', () => {
      const close = () => this.#stdio.close(this.#exitReason());
      setTimeout(close, COMMAND_STATUS_TIMEOUT_MS).unref();
    });
    return new Writable({ write: (bytes, _encoding, written) => void stdin.write(bytes, () => written()) });
  }

  /** Closes the transport with the reason why the program ended. */
  async #ended(): Promise<void> {
    await withTimeout(this.#gone, COMMAND_STATUS_TIMEOUT_MS, { unref: true });
    this.#stdio.close(this.#exitReason());
  }

  #exitReason(): CloseReason {
    const { exitCode, signalCode } = this.#child;
    const how = exitCode === null ? (signalCode ?? 'its output was closed') : `exit code ${exitCode}`;
    const { last } = this.#stderr;
    const reason = `${this.#program} has ended (${how})${last === '' ? '' : `: ${last}`}`;
    return { code: CloseCode.abnormal, reason, programEnded: true };
  }

  #endChild(): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#child.stdin.destroy();
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#kill('SIGTERM');
    const kill = setTimeout(() => this.#kill('SIGKILL'), COMMAND_END_TIMEOUT_MS);
    this.#child.once('exit', () => clearTimeout(kill));
  }

  /** The group may already be gone. */
  #kill(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.#child.pid!, signal);
    } catch {}
  }
}

/** Splits stderr into lines and remembers the last. */
class StderrLines {
  last = '';
  #line = '';

  constructor(stderr: Readable, onLine: (line: string) => void) {
    stderr.setEncoding('utf8');
    const pass = (line: string) => {
      if (line.trim() === '') return;
      this.last = line;
      notify('onStderr', onLine, line);
    };
    stderr.on('data', (text: string) => {
      const lines = (this.#line + text).split(/\r?\n/);
      this.#line = lines.pop()!.slice(0, STDERR_LINE_MAX_BYTES);
      for (const line of lines) pass(line.slice(0, STDERR_LINE_MAX_BYTES));
    });
    stderr.on('end', () => pass(this.#line));
    stderr.on('error', () => {});
  }
}
