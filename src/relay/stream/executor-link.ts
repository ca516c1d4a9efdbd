import { isUtf8 } from 'node:buffer';
import { ByteBudget } from '../../base/byte-budget.ts';
import { uptimeMs } from '../../base/uptime.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import type { CloseReason, Transport } from '../../transport/transport.ts';
import { RelayError } from '../errors.ts';
import { decodeFrame, encodeFrame, type ReceivedFrame } from '../frames/frame.ts';
import { ACK_SUPPORT, RESET_REASON, resumeKind } from '../frames/frame-markers.ts';
import {
  HANDSHAKE_COOLDOWN_MS,
  MAX_AUTHORIZATION_BYTES,
  MAX_FAILED_HANDSHAKES,
  MAX_LINK_INBOUND_BYTES,
  MAX_PENDING_HANDSHAKES,
  MAX_STREAMS,
  VALIDATION_TIMEOUT_MS,
} from '../limits.ts';
import { type Channel, ResponderHandshake } from '../noise/handshake.ts';
import type { Identity } from '../noise/identity.ts';
import type { NoisePublicKey } from '../noise/public-key.ts';
import type { FramePipe } from './frame-pipe.ts';
import { NoiseStream } from './noise-stream.ts';
import { OutgoingFrames } from './outgoing-frames.ts';

/** An authorized harness. */
export interface RelayPeer {
  readonly streamId: string;
  readonly harnessKey: NoisePublicKey;
}

/** A harness that requests access. */
export interface HarnessClaim extends RelayPeer {
  /** The authorization that the harness received from its registry. */
  readonly authorization: string;
  /** The id that this executor received when it registered. */
  readonly registrationId: string;
}

/** Identity and callbacks of an executor. */
export interface ExecutorLinkOptions {
  readonly identity: Identity;
  readonly environmentId: string;
  /** Authorizes a harness. Any result but true refuses it. The signal aborts when the result is no longer needed. */
  validate(claim: HarnessClaim, signal: AbortSignal): Promise<boolean>;
  /** Receives the stream of an authorized harness. */
  accept(transport: Transport, peer: RelayPeer): void;
  /** Called when the pipe is lost. Resumable streams wait for the next pipe. */
  pipeLost?(reason: CloseReason | undefined): void;
  /** A monotonic clock in milliseconds. */
  readonly now?: () => number;
}

/**
 * The executor's side of a relay: many streams over one pipe. It drops invalid frames. A protocol error in one stream ends only that
 * stream.
 */
export class ExecutorLink {
  readonly #options: ExecutorLinkOptions;
  readonly #outgoing = new OutgoingFrames((backlogged) => this.#pipe?.setReceiving(!backlogged));
  readonly #budget = new ByteBudget(MAX_LINK_INBOUND_BYTES);
  readonly #streams = new Map<string, NoiseStream>();
  /** Running handshakes. Aborting a controller cancels its handshake. */
  readonly #pending = new Map<string, AbortController>();
  /** Running handshakes including cancelled ones that have not stopped yet. A peer that starts and cancels gains nothing. */
  #running = 0;
  #limiter: HandshakeLimiter;
  #pipe: FramePipe | null = null;
  #registrationId = '';
  #closed = false;

  constructor(options: ExecutorLinkOptions) {
    this.#options = options;
    this.#limiter = this.#newLimiter();
  }

  /** Streams that are open or wait for their peer to reconnect. */
  get streamCount(): number {
    return this.#streams.size;
  }

  /** Replaces the pipe. A closed link closes the new pipe. */
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
    for (const stream of this.#streams.values()) stream.pipeAttached();
  }

  /** Ends all streams immediately and closes the pipe. */
  close(reason: CloseReason): void {
    this.#closed = true;
    this.#cancelHandshakes();
    for (const stream of [...this.#streams.values()]) stream.abort(reason);
    this.#pipe = null;
    this.#outgoing.end();
  }

  /** Detaches the pipe. Ends the handshakes and the streams that cannot resume. */
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
    else this.#dispatch(frame);
  }

  /** Passes a frame to its stream. */
  #dispatch(frame: ReceivedFrame): void {
    const { streamId, body } = frame;
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) {
      stream.receive(frame);
      return;
    }
    if (body.kind === 'reset') this.#cancel(streamId);
    // Data before the end of the handshake is a protocol error, and an unknown stream cannot resume.
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
    } else if (!this.#canStart(streamId)) {
      this.#reset(streamId);
    } else {
      const controller = new AbortController();
      this.#pending.set(streamId, controller);
      this.#running++;
      void this.#admit(streamId, message, frame.ackBits === ACK_SUPPORT, controller.signal);
    }
  }

  #canStart(streamId: string): boolean {
    return (
      !this.#streams.has(streamId) &&
      this.#limiter.open &&
      this.#running < MAX_PENDING_HANDSHAKES &&
      this.#streams.size + this.#pending.size < MAX_STREAMS
    );
  }

  /** Reads message 1, authorizes the harness, and only then completes the handshake. */
  async #admit(
    streamId: string,
    message: Uint8Array,
    offersAcks: boolean,
    cancelled: AbortSignal,
  ): Promise<void> {
    const admitted = await this.#authorize(streamId, message, cancelled).catch(toRefusal);
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
        ackBits: offersAcks ? ACK_SUPPORT : 0,
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

  /** Returns null when the harness is refused. Throws RelayError when the message is not for this stream. */
  async #authorize(streamId: string, message: Uint8Array, cancelled: AbortSignal): Promise<Admission | null> {
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

  /** Whether the harness is authorized. Returns false when the answer does not arrive in time. */
  async #validate(claim: HarnessClaim, cancelled: AbortSignal): Promise<boolean> {
    const waiting = new AbortController();
    const giveUp = () => {
      waiting.abort();
      return false;
    };
    const validated = this.#options.validate(claim, waiting.signal).catch(() => false);
    const limits = { signal: cancelled, onTimeout: giveUp };
    return (await withTimeout(validated, VALIDATION_TIMEOUT_MS, limits).catch(giveUp)) === true;
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

/** The result of an accepted handshake. */
interface Admission {
  readonly channel: Channel & { readonly message: Buffer };
  readonly peer: RelayPeer;
}

/** Treats an invalid handshake as a refusal. Other errors are bugs and propagate. */
function toRefusal(error: unknown): null {
  if (error instanceof RelayError) return null;
  throw error;
}

/** Refuses handshakes for a time after too many have failed. Each one costs the executor CPU time and its registry a request. */
class HandshakeLimiter {
  readonly #now: () => number;
  #failures = 0;
  #closedUntilMs = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether a new handshake may start. */
  get open(): boolean {
    return this.#now() >= this.#closedUntilMs;
  }

  /** Counts a failure. Successes do not reset the count; the cooldown does. */
  failed(): void {
    this.#failures++;
    if (this.#failures < MAX_FAILED_HANDSHAKES) return;
    this.#failures = 0;
    this.#closedUntilMs = this.#now() + HANDSHAKE_COOLDOWN_MS;
  }
}
