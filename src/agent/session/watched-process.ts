import type { ExecProcess, OutputStream, ProcessEvent } from '../../environment/index.ts';
import { messageOf } from '../errors.ts';
import { DELTA_BYTES, HELD_OUTPUT_BYTES, TRANSCRIPT_BYTES, UNREAD_BYTES } from '../limits.ts';
import { HeadTailBuffer } from '../output/head-tail-buffer.ts';
import { TextPieces } from '../output/text-pieces.ts';
import { NetworkDecisions } from './network-decisions.ts';
import { closed, exited, failed, type ProcessState, RUNNING } from './process-state.ts';

/**
 * Follows the events of a started process to the end. It keeps output for the next call and for the end event, and passes it on in
 * pieces. Its memory is bounded.
 */
export class WatchedProcess {
  readonly process: ExecProcess;
  /** The decisions about its network. */
  readonly network: NetworkDecisions;
  readonly transcript = new HeadTailBuffer(TRANSCRIPT_BYTES);
  /** Output that no call has returned yet. */
  readonly unread = new HeadTailBuffer(UNREAD_BYTES);
  /** Resolves after the last event; never rejects. */
  readonly ended: Promise<void>;
  #resolveEnded: () => void = () => {};
  readonly #stop = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #pieces = new Map<OutputStream, TextPieces>();
  #state: ProcessState = RUNNING;
  /** Receives the output. Output before it is set is held. */
  #sink: ((piece: Uint8Array) => void) | null = null;
  #held: Uint8Array[] = [];
  #heldBytes = 0;

  constructor(process: ExecProcess, network = new NetworkDecisions()) {
    this.process = process;
    this.network = network;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    void this.#follow();
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** Passes all output to the sink, from the beginning, in pieces that never split a character. */
  streamTo(sink: (piece: Uint8Array) => void): void {
    this.#sink = sink;
    for (const piece of this.#held) sink(piece);
    this.#held = [];
    this.#notify();
  }

  /** Calls the listener on output and on every change of the state. Returns a function that removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stops following the process. Unless it has ended, it is lost. */
  abandon(message: string): void {
    this.#fail(message);
    this.#stop.abort();
  }

  async #follow(): Promise<void> {
    try {
      for await (const event of this.process.events({ signal: this.#stop.signal })) {
        if (this.#state.ended) break;
        this.#take(event);
        await this.#outputCapacity();
      }
      this.#fail('its events ended before its exit');
    } catch (error) {
      this.#fail(messageOf(error));
    }
  }

  #take(event: ProcessEvent): void {
    switch (event.type) {
      case 'output':
        this.#keep(this.#piecesOf(event.stream).push(event.bytes));
        break;
      case 'lost':
        // The rest of an incomplete character is lost, too.
        this.#flush();
        if (event.bytes !== 0) this.#keep([Buffer.from(lossMarker(event.bytes))]);
        break;
      case 'exited':
        this.#become(exited(this.#state, event.exitCode, event.sandboxDenied));
        break;
      case 'closed':
        this.#flush();
        this.#become(closed(this.#state));
        break;
      case 'failed':
        this.#fail(event.error.message);
    }
  }

  #piecesOf(stream: OutputStream): TextPieces {
    let pieces = this.#pieces.get(stream);
    if (pieces === undefined) {
      pieces = new TextPieces(DELTA_BYTES);
      this.#pieces.set(stream, pieces);
    }
    return pieces;
  }

  #keep(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) {
      this.unread.push(piece);
      this.transcript.push(piece);
      if (this.#sink === null) {
        this.#held.push(piece);
        this.#heldBytes += piece.length;
      } else {
        this.#sink(piece);
      }
    }
    if (pieces.length > 0) this.#notify();
  }

  #flush(): void {
    for (const pieces of this.#pieces.values()) this.#keep(pieces.flush());
  }

  #fail(message: string): void {
    if (this.#state.ended) return;
    this.#flush();
    this.#become(failed(this.#state, message));
  }

  #become(state: ProcessState): void {
    this.#state = state;
    if (state.ended) this.#resolveEnded();
    this.#notify();
  }

  /** Reads no events while too much output is held. The event log has its own limit. */
  async #outputCapacity(): Promise<void> {
    while (this.#sink === null && this.#heldBytes > HELD_OUTPUT_BYTES && !this.#state.ended) {
      await new Promise<void>((resolve) => {
        const stop = this.onChange(() => {
          stop();
          resolve();
        });
      });
    }
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

function lossMarker(bytes: number | null): string {
  return `\n... ${bytes ?? 'some'} bytes lost ...\n`;
}
