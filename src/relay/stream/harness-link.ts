import { randomUUID } from 'node:crypto';
import { ByteBudget } from '../../base/byte-budget.ts';
import { printable } from '../../protocol/errors.ts';
import { CloseCode, type CloseReason, type Transport } from '../../transport/transport.ts';
import { RelayError } from '../errors.ts';
import { decodeFrame, encodeFrame, type ReceivedFrame } from '../frames/frame.ts';
import { ACK_SUPPORT } from '../frames/frame-markers.ts';
import { HANDSHAKE_TIMEOUT_MS, MAX_STREAM_INBOUND_BYTES, REORDER_MAX_DISTANCE } from '../limits.ts';
import { InitiatorHandshake } from '../noise/handshake.ts';
import type { Identity } from '../noise/identity.ts';
import type { NoisePublicKey } from '../noise/public-key.ts';
import type { FramePipe } from './frame-pipe.ts';
import { NoiseStream } from './noise-stream.ts';
import { OutgoingFrames } from './outgoing-frames.ts';

/** The executor to connect to and the credentials for it, as returned by the registry. */
export interface HarnessLinkOptions {
  readonly identity: Identity;
  readonly executorKey: NoisePublicKey;
  readonly environmentId: string;
  readonly registrationId: string;
  readonly authorization: string;
  /** Aborting it cancels an unfinished handshake. */
  readonly signal?: AbortSignal;
  /** Default true. With false the stream has exactly the reference's behavior. */
  readonly offerAcks?: boolean;
  /** Called when the pipe of a resumable stream is lost. {@link HarnessLink.attach} resumes it over another pipe. */
  pipeLost?(): void;
  /** Called when the stream has ended. */
  ended?(): void;
}

/** The harness's side of a relay: one stream over one pipe. Unlike the executor it ends at the first protocol error. */
export class HarnessLink {
  readonly streamId = randomUUID();
  readonly #options: HarnessLinkOptions;
  readonly #outgoing = new OutgoingFrames((backlogged) => {
    this.#backlogged = backlogged;
    this.#updateReading();
  });
  #pipe: FramePipe | null = null;
  #handshaking: PendingHandshake | null = null;
  #stream: NoiseStream | null = null;
  #resumable = false;
  /** Reasons to stop reading: a backlog of control frames that the executor does not read, or an owner that does not read. */
  #backlogged = false;
  #ownerReads = true;

  private constructor(options: HarnessLinkOptions) {
    this.#options = options;
  }

  /**
   * Opens a stream over the pipe and takes ownership of the pipe. Rejects with RelayError: `refused` when the executor refuses this
   * harness, `lost` when the pipe ends, `timeout` without an answer, `handshake` or `protocol` when the answer is invalid.
   */
  static async connect(pipe: FramePipe, options: HarnessLinkOptions): Promise<HarnessLink> {
    const link = new HarnessLink(options);
    try {
      await link.#connect(pipe);
      return link;
    } catch (error) {
      link.#dropPipe();
      throw error;
    }
  }

  get transport(): Transport {
    return this.#stream!;
  }

  /** Whether the stream can resume over another pipe. */
  get resumable(): boolean {
    return this.#resumable;
  }

  /**
   * Resumes the stream over another pipe. The stream ends if the executor no longer knows it. Closes the pipe if the stream has ended
   * meanwhile or cannot resume.
   */
  attach(pipe: FramePipe): void {
    if (!this.#resumable || this.#stream === null || this.#stream.ended) {
      pipe.close();
      return;
    }
    this.#dropPipe();
    this.#open(pipe);
    this.#stream.pipeAttached();
  }

  /** Ends the stream immediately. */
  abort(reason: CloseReason): void {
    this.#stream?.abort(reason);
  }

  async #connect(pipe: FramePipe): Promise<void> {
    const { identity, executorKey, environmentId, registrationId, authorization, signal } = this.#options;
    const { streamId } = this;
    this.#pipe = pipe;
    const handshake = await InitiatorHandshake.start({
      identity,
      executorKey,
      binding: { environmentId, registrationId, streamId },
      payload: Buffer.from(authorization),
    });
    try {
      const pending = new PendingHandshake(signal);
      this.#handshaking = pending;
      this.#open(pipe);
      const offer = (this.#options.offerAcks ?? true) ? ACK_SUPPORT : 0;
      this.#outgoing.sendControl(encodeFrame({ streamId, body: { kind: 'resume', nextSeq: 0 } }));
      this.#outgoing.sendControl(
        encodeFrame({ streamId, ackBits: offer, body: { kind: 'handshake', payload: handshake.message } }),
      );
      const { payload, acknowledges } = await pending.answered;
      const { ciphers } = await handshake.finish(payload);
      this.#resumable = offer !== 0 && acknowledges;
      this.#begin(
        new NoiseStream({
          streamId,
          ciphers,
          acknowledged: this.#resumable,
          outgoing: this.#outgoing,
          budget: new ByteBudget(MAX_STREAM_INBOUND_BYTES),
          setPipeReceiving: (receiving) => {
            this.#ownerReads = receiving;
            this.#updateReading();
          },
          ended: () => this.#endPipe(),
        }),
        pending,
      );
    } finally {
      handshake.destroy();
    }
  }

  /** Starts the stream with the frames that arrived while the answer was being processed. */
  #begin(stream: NoiseStream, pending: PendingHandshake): void {
    pending.throwIfFailed();
    this.#handshaking = null;
    this.#stream = stream;
    for (const frame of pending.early) this.#receive(frame);
  }

  #open(pipe: FramePipe): void {
    this.#pipe = pipe;
    this.#backlogged = false;
    this.#outgoing.attach(pipe);
    pipe.open({
      frame: (bytes) => {
        if (this.#pipe === pipe) this.#decode(bytes);
      },
      drained: () => {
        if (this.#pipe === pipe) this.#outgoing.drained();
      },
      closed: (reason) => {
        if (this.#pipe === pipe) this.#pipeClosed(reason);
      },
    });
  }

  #decode(bytes: Uint8Array): void {
    let frame: ReceivedFrame;
    try {
      frame = decodeFrame(bytes);
    } catch (error) {
      if (!(error instanceof RelayError)) throw error;
      this.#fail(error);
      return;
    }
    if (frame.streamId !== this.streamId) return;
    if (this.#handshaking !== null) this.#handshaking.receive(frame);
    else this.#receive(frame);
  }

  #receive(frame: ReceivedFrame): void {
    if (frame.body.kind === 'handshake') {
      this.#fail(new RelayError('protocol', 'the executor sent a second handshake'));
    } else {
      this.#stream?.receive(frame);
    }
  }

  #fail(error: RelayError): void {
    this.#handshaking?.fail(error);
    this.#stream?.abort({ code: CloseCode.abnormal, reason: error.message });
  }

  #updateReading(): void {
    this.#pipe?.setReceiving(this.#ownerReads && !this.#backlogged);
  }

  #pipeClosed(reason: CloseReason | undefined): void {
    this.#pipe = null;
    this.#outgoing.detach();
    const detail = reason === undefined || reason.reason === '' ? '' : `: ${printable(reason.reason)}`;
    this.#handshaking?.fail(new RelayError('lost', `lost the connection to the rendezvous${detail}`));
    if (this.#stream?.pipeLost()) this.#options.pipeLost?.();
  }

  /** Closes the pipe after the last frame of the ended stream. */
  #endPipe(): void {
    this.#pipe = null;
    this.#outgoing.end();
    this.#options.ended?.();
  }

  #dropPipe(): void {
    const pipe = this.#pipe;
    this.#pipe = null;
    this.#outgoing.detach();
    pipe?.close();
  }
}

/** Message 2 of the handshake. */
interface Answer {
  readonly payload: Uint8Array;
  readonly acknowledges: boolean;
}

/** Waits for the executor's answer. Keeps the frames after it until the answer has been processed. */
class PendingHandshake {
  readonly answered: Promise<Answer>;
  readonly early: ReceivedFrame[] = [];
  #resolve!: (answer: Answer) => void;
  #reject!: (error: unknown) => void;
  #isAnswered = false;
  #failure: unknown = null;
  readonly #stop = new AbortController();

  constructor(signal: AbortSignal | undefined) {
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The rejection may come before a caller awaits the promise.
    this.answered.catch(() => {});
    const timeout = setTimeout(
      () => this.fail(new RelayError('timeout', 'the executor did not answer the handshake')),
      HANDSHAKE_TIMEOUT_MS,
    );
    this.#stop.signal.addEventListener('abort', () => clearTimeout(timeout));
    const abort = () => this.fail(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true, signal: this.#stop.signal });
    if (signal?.aborted) abort();
  }

  receive(frame: ReceivedFrame): void {
    const { body, ackBits } = frame;
    if (body.kind === 'reset') {
      this.fail(new RelayError('refused', 'the executor refused this harness'));
    } else if (this.#isAnswered) {
      this.#keep(frame);
    } else if (body.kind === 'handshake') {
      this.#isAnswered = true;
      this.#stop.abort();
      this.#resolve({ payload: body.payload, acknowledges: ackBits === ACK_SUPPORT });
    } else if (body.kind === 'data') {
      this.fail(new RelayError('protocol', 'the executor sent records before its handshake'));
    }
  }

  fail(error: unknown): void {
    this.#stop.abort();
    this.#failure ??= error;
    this.#reject(error);
  }

  /** Throws the error that occurred after the answer. */
  throwIfFailed(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  #keep(frame: ReceivedFrame): void {
    if (this.early.length < REORDER_MAX_DISTANCE) this.early.push(frame);
    else
      this.fail(
        new RelayError('protocol', 'the executor sent too many frames before its handshake was processed'),
      );
  }
}
