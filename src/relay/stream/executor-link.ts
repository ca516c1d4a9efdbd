import { isUtf8 } from 'node:buffer';
import { ByteBudget } from '../../base/byte-budget.ts';
import { uptimeMs } from '../../base/uptime.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import type { CloseReason, Transport } from '../../transport/transport.ts';
import { RelayError } from '../errors.ts';
import { decodeFrame, encodeFrame, type ReceivedFrame } from '../frames/frame.ts';
import { ACKNOWLEDGES, RESET_REASON, resumeKind } from '../frames/frame-markers.ts';
import {
  MAX_AUTHORIZATION_BYTES,
  MAX_LINK_INBOUND_BYTES,
  MAX_PENDING_HANDSHAKES,
  MAX_STREAMS,
  VALIDATION_TIMEOUT_MS,
} from '../limits.ts';
import { type Channel, ResponderHandshake } from '../noise/handshake.ts';
import type { Identity } from '../noise/identity.ts';
import type { NoisePublicKey } from '../noise/public-key.ts';
import type { FramePipe } from './frame-pipe.ts';
import { HandshakeLimiter } from './handshake-limiter.ts';
import { NoiseStream } from './noise-stream.ts';
import { OutgoingFrames } from './outgoing-frames.ts';

/** A harness that has been let in. */
export interface RelayPeer {
  readonly streamId: string;
  readonly harnessKey: NoisePublicKey;
}

/** A harness that asks to be let in. */
export interface HarnessClaim extends RelayPeer {
  /** What it got from its registry to show here. */
  readonly authorization: string;
  /** What the registry gave this executor when it registered. */
  readonly registrationId: string;
}

/** Who an executor is, and what it does with harnesses. */
export interface ExecutorLinkOptions {
  readonly identity: Identity;
  readonly environmentId: string;
  /** Judges a harness. Anything but true refuses it; the signal aborts when nobody waits for the answer any more. */
  validate(claim: HarnessClaim, signal: AbortSignal): Promise<boolean>;
  /** Takes the stream of a harness that has been let in. */
  accept(transport: Transport, peer: RelayPeer): void;
  /** The pipe is gone; streams that can be resumed wait for the next one. */
  pipeLost?(reason: CloseReason | undefined): void;
  /** A clock that does not jump. */
  readonly now?: () => number;
}

/**
 * The executor's end of a relay: many streams over one pipe. A frame that makes no sense is dropped, and what is wrong with one stream
 * ends that stream alone.
 */
export class ExecutorLink {
  readonly #options: ExecutorLinkOptions;
  readonly #outgoing = new OutgoingFrames((backlogged) => this.#pipe?.setReceiving(!backlogged));
  readonly #budget = new ByteBudget(MAX_LINK_INBOUND_BYTES);
  readonly #streams = new Map<string, NoiseStream>();
  /** Handshakes under way; aborting one makes it come to nothing. */
  readonly #pending = new Map<string, AbortController>();
  /** These and the ones that were aborted and have not noticed yet: whoever begins and takes back gains no room by it. */
  #running = 0;
  #limiter: HandshakeLimiter;
  #pipe: FramePipe | null = null;
  #registrationId = '';
  #closed = false;

  constructor(options: ExecutorLinkOptions) {
    this.#options = options;
    this.#limiter = this.#newLimiter();
  }

  /** Streams that are open, or wait for their peer to come back. */
  get streamCount(): number {
    return this.#streams.size;
  }

  /** Serves a new pipe in place of the old one. After the end the pipe is only closed. */
  attach(pipe: FramePipe, registrationId: string): void {
    if (this.#closed) {
      pipe.close();
      return;
    }
    this.#detach()?.close();
    this.#pipe = pipe;
    this.#registrationId = registrationId;
    this.#limiter = this.#newLimiter();
    this.#outgoing.attach(pipe);
    pipe.open({
      frame: (bytes) => {
        if (this.#pipe === pipe) this.#receive(bytes);
      },
      drained: () => {
        if (this.#pipe === pipe) this.#outgoing.drained();
      },
      closed: (reason) => {
        if (this.#pipe !== pipe) return;
        this.#detach();
        this.#options.pipeLost?.(reason);
      },
    });
    for (const stream of this.#streams.values()) stream.pipeFound();
  }

  /** Ends all streams at once, and the pipe. */
  close(reason: CloseReason): void {
    this.#closed = true;
    this.#cancelHandshakes();
    for (const stream of [...this.#streams.values()]) stream.abort(reason);
    this.#pipe = null;
    this.#outgoing.end();
  }

  /** Lets go of the pipe: what cannot go on without it ends. */
  #detach(): FramePipe | null {
    const pipe = this.#pipe;
    this.#pipe = null;
    this.#outgoing.detach();
    this.#cancelHandshakes();
    for (const stream of [...this.#streams.values()]) stream.pipeLost();
    return pipe;
  }

  #receive(bytes: Uint8Array): void {
    let frame: ReceivedFrame;
    try {
      frame = decodeFrame(bytes);
    } catch (error) {
      if (error instanceof RelayError) return;
      throw error;
    }
    if (frame.body.kind === 'handshake') this.#handshake(frame, frame.body.payload);
    else this.#pass(frame);
  }

  /** Passes a frame on to its stream. */
  #pass(frame: ReceivedFrame): void {
    const { streamId, body } = frame;
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) {
      stream.receive(frame);
      return;
    }
    if (body.kind === 'reset') this.#cancel(streamId);
    // Nothing may be said before the handshake is done, and what is not known here cannot go on.
    if (body.kind === 'data' || (body.kind === 'resume' && resumeKind(frame) !== null)) {
      this.#cancel(streamId);
      this.#reset(streamId);
    }
  }

  #handshake(frame: ReceivedFrame, message: Uint8Array): void {
    const { streamId } = frame;
    if (this.#cancel(streamId)) {
      this.#limiter.failed();
      this.#reset(streamId);
    } else if (!this.#hasRoom(streamId)) {
      this.#reset(streamId);
    } else {
      const controller = new AbortController();
      this.#pending.set(streamId, controller);
      this.#running++;
      void this.#admit(streamId, message, frame.ackBits === ACKNOWLEDGES, controller.signal);
    }
  }

  #hasRoom(streamId: string): boolean {
    return (
      !this.#streams.has(streamId) &&
      this.#limiter.open &&
      this.#running < MAX_PENDING_HANDSHAKES &&
      this.#streams.size + this.#pending.size < MAX_STREAMS
    );
  }

  /** Reads the first message, has the harness judged, and only then completes the handshake. */
  async #admit(
    streamId: string,
    message: Uint8Array,
    offersAcks: boolean,
    cancelled: AbortSignal,
  ): Promise<void> {
    const admitted = await this.#judge(streamId, message, cancelled).catch(toRefusal);
    this.#running--;
    if (cancelled.aborted) return;
    this.#pending.delete(streamId);
    if (admitted === null) {
      this.#limiter.failed();
      this.#reset(streamId);
      return;
    }
    const { channel, peer } = admitted;
    this.#outgoing.sendControl(
      encodeFrame({
        streamId,
        ackBits: offersAcks ? ACKNOWLEDGES : 0,
        body: { kind: 'handshake', payload: channel.message },
      }),
    );
    const stream = new NoiseStream({
      streamId,
      ciphers: channel.ciphers,
      acknowledged: offersAcks,
      outgoing: this.#outgoing,
      budget: this.#budget,
      ended: () => this.#streams.delete(streamId),
    });
    this.#streams.set(streamId, stream);
    this.#options.accept(stream, peer);
  }

  /** Throws RelayError when the message is not for this stream; null when the harness is refused. */
  async #judge(streamId: string, message: Uint8Array, cancelled: AbortSignal): Promise<Admission | null> {
    const { identity, environmentId } = this.#options;
    const registrationId = this.#registrationId;
    const binding = { environmentId, registrationId, streamId };
    const responder = await ResponderHandshake.read(message, { identity, binding });
    try {
      const { payload, harnessKey } = responder;
      if (cancelled.aborted || payload.length > MAX_AUTHORIZATION_BYTES || !isUtf8(payload)) return null;
      const claim = { streamId, harnessKey, registrationId, authorization: Buffer.from(payload).toString() };
      if (!(await this.#validate(claim, cancelled))) return null;
      return { channel: await responder.finish(), peer: { streamId, harnessKey } };
    } finally {
      responder.destroy();
    }
  }

  /** Whether the harness is let in; not, when that cannot be found out in time. */
  async #validate(claim: HarnessClaim, cancelled: AbortSignal): Promise<boolean> {
    const waiting = new AbortController();
    const giveUp = () => {
      waiting.abort();
      return false;
    };
    const judged = this.#options.validate(claim, waiting.signal).catch(() => false);
    const limits = { signal: cancelled, onTimeout: giveUp };
    return (await withTimeout(judged, VALIDATION_TIMEOUT_MS, limits).catch(giveUp)) === true;
  }

  #cancel(streamId: string): boolean {
    this.#pending.get(streamId)?.abort();
    return this.#pending.delete(streamId);
  }

  #cancelHandshakes(): void {
    for (const streamId of [...this.#pending.keys()]) this.#cancel(streamId);
  }

  #reset(streamId: string): void {
    this.#outgoing.sendControl(encodeFrame({ streamId, body: { kind: 'reset', reason: RESET_REASON } }));
  }

  #newLimiter(): HandshakeLimiter {
    return new HandshakeLimiter(this.#options.now ?? uptimeMs);
  }
}

/** A harness that is let in. */
interface Admission {
  readonly channel: Channel & { readonly message: Buffer };
  readonly peer: RelayPeer;
}

/** A handshake that makes no sense is a refusal; anything else is a defect. */
function toRefusal(error: unknown): null {
  if (error instanceof RelayError) return null;
  throw error;
}
