import {
  type AttachedClient,
  ClientError,
  type ExecProcess,
  type ExecServerClient,
  type ProcessInfo,
  type ProcessScreen,
} from '../../../src/client/browser.ts';
import { describeError } from '../base/format.ts';
import { Store } from '../base/store.ts';
import type { EnvironmentConnection } from './environment-connection.ts';
import type { ProcessList } from './process-list.ts';

/** Shows what a process prints. Each call may wait; the program of a driver waits with it. */
export interface ProcessDisplay {
  /** The true screen. `before` is the output that led to it, as far as the server has it, or says what the display lacks before it. */
  screen(screen: ProcessScreen, before: readonly Uint8Array[] | string): Promise<void>;
  output(bytes: Uint8Array, stream: 'stdout' | 'stderr' | 'pty'): Promise<void> | void;
  /** Output before this point is missing, and no screen follows. */
  gap(text: string): Promise<void> | void;
  /** Gives the keyboard to the display, where it has a use for it. */
  focus?(): void;
  close(): void;
}

export interface SessionState {
  /** `lost`: the process does not exist, or no longer. `failed`: it exists but cannot be shown. */
  readonly phase: 'attaching' | 'live' | 'ended' | 'lost' | 'failed';
  readonly info: ProcessInfo | null;
  readonly role: 'driver' | 'viewer';
  /** Other attached clients that watch. */
  readonly watchers: number;
  /** Whether a client drives. True until the server has reported the clients. */
  readonly isDriven: boolean;
  /** Another client has taken over since the user last acted. */
  readonly takenOver: boolean;
  readonly error: string | null;
}

/** A small window keeps the way from a key to its echo short while the program prints a lot. */
const WINDOW_BYTES = 96 * 1024;
/** An ended program whose whole output is at most this long is shown with its history instead of its last screen. */
const REPLAY_MAX_BYTES = 2_000_000;

const STDIN_CLOSED = 'The program did not get this line: its stdin is closed, or it was started without one.';

/** How much earlier output of a terminal is loaded for its history. More than its lines are long. */
const HISTORY_BYTES = 512 * 1024;

/** One process that this page shows: attached, and attached again after every loss of the connection. */
export class ProcessSession {
  readonly ref: string;
  readonly state = new Store<SessionState>({
    phase: 'attaching',
    info: null,
    role: 'viewer',
    watchers: 0,
    isDriven: true,
    takenOver: false,
    error: null,
  });
  readonly display = new Store<ProcessDisplay | null>(null);
  /** Whether this browser may drive. */
  readonly mayDrive: boolean;
  readonly #createDisplay: (session: ProcessSession, info: ProcessInfo) => Promise<ProcessDisplay>;
  readonly #stops: (() => void)[];
  #process: ExecProcess | null = null;
  #following: AbortController | null = null;
  #wasLive = false;
  #showsPast = false;
  /** The last event that the screen shows. */
  #drawnSeq = 0;
  #redrawing: Promise<void> = Promise.resolve();

  constructor(
    connection: EnvironmentConnection,
    list: ProcessList,
    ref: string,
    options: {
      readonly readOnly: boolean;
      readonly createDisplay: (session: ProcessSession, info: ProcessInfo) => Promise<ProcessDisplay>;
    },
  ) {
    this.ref = ref;
    this.mayDrive = !options.readOnly;
    this.#createDisplay = options.createDisplay;
    this.#stops = [
      connection.client.subscribe((client) => this.#follow(client)),
      list.state.subscribe(({ processes }) => {
        const info = processes?.find((process) => process.ref === ref);
        if (info !== undefined && this.state.value.info !== null) this.#set({ info });
      }),
    ];
    this.#follow(connection.client.value);
  }

  /** Whether the program had ended before this page showed it. Then nothing that it asks for is meant for now. */
  get showsPast(): boolean {
    return this.#showsPast;
  }

  /** Sends input. Only a driver may; other input is dropped. */
  write(data: string | Uint8Array): void {
    if (this.state.value.role !== 'driver' || this.state.value.phase !== 'live') return;
    this.#process?.write(data).catch((error) => this.#report(error));
  }

  closeStdin(): void {
    this.#process?.closeStdin().catch((error) => this.#report(error));
  }

  resize(rows: number, cols: number): void {
    if (this.state.value.role !== 'driver' || this.state.value.phase !== 'live') return;
    // A program that has just ended has no terminal to resize.
    this.#process?.resize(rows, cols).catch(() => {});
  }

  async takeOver(): Promise<void> {
    try {
      await this.#process?.takeOver();
      this.#set({ takenOver: false });
      this.display.value?.focus?.();
    } catch (error) {
      this.#report(error);
    }
  }

  /** Draws the true screen, because the display has dropped output. `gap` says how much. */
  redraw(gap: string): void {
    const process = this.#process;
    if (process === null || this.state.value.phase !== 'live') return;
    // An error means that the connection is lost. Then a screen comes with the next one.
    this.#redrawing = this.#drawScreen(process, gap).catch(() => {});
  }

  dismissError(): void {
    this.#set({ error: null, takenOver: false });
  }

  close(): void {
    for (const stop of this.#stops) stop();
    this.#following?.abort();
    this.#process?.detach().catch(() => {});
    this.display.value?.close();
  }

  #follow(client: ExecServerClient | null): void {
    this.#following?.abort();
    this.#process = null;
    if (client === null || this.state.value.phase === 'lost') return;
    this.#following = new AbortController();
    const { signal } = this.#following;
    this.#run(client, signal).catch((error) => {
      // A new client follows the process from where this one stopped.
      if (signal.aborted || client.state === 'failed' || client.state === 'closed') return;
      const phase = error instanceof ClientError && error.kind === 'notFound' ? 'lost' : 'failed';
      this.#set({ phase, error: describeError(error) });
    });
  }

  async #run(client: ExecServerClient, signal: AbortSignal): Promise<void> {
    const info = await client.processes.get(this.ref, { signal });
    this.#set({ info });
    if (this.display.value === null) this.display.set(await this.#createDisplay(this, info));
    if (signal.aborted) return;
    const display = this.display.value!;
    const replay = info.state === 'closed' && (info.outputBytes ?? 0) <= REPLAY_MAX_BYTES && !this.#wasLive;
    if (!this.#wasLive) this.#showsPast = info.state === 'closed';
    const screen = info.tty && client.capabilities.processScreen === true && !replay;
    const process = await this.#attach(client, screen, signal);
    if (signal.aborted) {
      await process.detach();
      return;
    }
    this.#process = process;
    const gap = this.#wasLive ? 'connected again; output in between is not shown' : null;
    this.#wasLive = true;
    this.#set({
      phase: 'live',
      error: null,
      role: roleOf(process),
      ...othersOf(process.attachedClients, roleOf(process)),
    });
    process.onAttachmentChange(({ role, reason, attached }) => {
      if (signal.aborted) return;
      this.#set({
        role: role === 'driver' ? 'driver' : 'viewer',
        ...othersOf(attached, role),
        takenOver: reason === 'takenOver' || (this.state.value.takenOver && role !== 'driver'),
      });
    });
    await this.#show(process, display, gap, signal);
  }

  /** Drives a process that no other client drives, and watches any other. */
  async #attach(client: ExecServerClient, screen: boolean, signal: AbortSignal): Promise<ExecProcess> {
    const options = { screen, windowBytes: WINDOW_BYTES, signal };
    if (this.mayDrive) {
      try {
        return await client.attach(this.ref, { ...options, role: 'driver' });
      } catch (error) {
        const isRefused =
          error instanceof ClientError && (error.kind === 'conflict' || error.kind === 'permissionDenied');
        if (!isRefused) throw error;
      }
    }
    return client.attach(this.ref, { ...options, role: 'viewer' });
  }

  async #show(
    process: ExecProcess,
    display: ProcessDisplay,
    gap: string | null,
    signal: AbortSignal,
  ): Promise<void> {
    const tty = this.state.value.info!.tty;
    this.#drawnSeq = 0;
    let gapText = gap;
    for await (const event of process.events({ signal })) {
      if (signal.aborted) return;
      if (event.type === 'screen') {
        await display.screen(event.screen, gapText ?? (await history(process, event.seq, signal)));
        gapText = null;
      } else if (event.type === 'output') {
        await this.#redrawing;
        if (event.seq > this.#drawnSeq) await display.output(event.bytes, event.stream);
      } else if (event.type === 'lost') {
        const text =
          event.bytes === null ? 'output skipped' : `${event.bytes.toLocaleString()} bytes skipped`;
        if (!tty || process.state.closed) await display.gap(text);
        else await this.#drawScreen(process, text);
      } else if (event.type === 'closed') {
        this.#set({ phase: 'ended' });
      } else if (event.type === 'failed') throw event.error;
    }
  }

  async #drawScreen(process: ExecProcess, gap: string): Promise<void> {
    const screen = await process.screen();
    this.#drawnSeq = screen.seq;
    await this.display.value?.screen(screen, gap);
  }

  #report(error: unknown): void {
    const isClosed = error instanceof ClientError && error.kind === 'stdinClosed';
    // A key for a terminal whose program has just ended is no error.
    if (isClosed && this.state.value.info?.tty === true) return;
    this.#set({ error: isClosed ? STDIN_CLOSED : describeError(error) });
  }

  #set(change: Partial<SessionState>): void {
    this.state.set({ ...this.state.value, ...change });
  }
}

/** The retained output up to an event, at most the last of it. */
async function history(
  process: ExecProcess,
  lastSeq: number,
  signal: AbortSignal,
): Promise<readonly Uint8Array[]> {
  const found: Uint8Array[] = [];
  let bytes = 0;
  for (let afterSeq = 0; afterSeq < lastSeq; ) {
    const { chunks, nextSeq } = await process.read({ afterSeq, signal });
    if (chunks.length === 0) break;
    for (const chunk of chunks) {
      if (chunk.seq > lastSeq) break;
      found.push(chunk.bytes);
      bytes += chunk.bytes.length;
    }
    while (bytes > HISTORY_BYTES) bytes -= found.shift()!.length;
    afterSeq = nextSeq - 1;
  }
  return found;
}

/** The other attached clients. */
function othersOf(
  attached: readonly AttachedClient[],
  ownRole: string,
): Pick<SessionState, 'watchers' | 'isDriven'> {
  const viewers = attached.filter(({ role }) => role === 'viewer').length;
  return {
    watchers: Math.max(0, viewers - (ownRole === 'viewer' ? 1 : 0)),
    isDriven: attached.length === 0 || attached.some(({ role }) => role === 'driver'),
  };
}

function roleOf(process: ExecProcess): 'driver' | 'viewer' {
  return process.role === 'driver' ? 'driver' : 'viewer';
}
