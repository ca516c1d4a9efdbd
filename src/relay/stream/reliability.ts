import type { FrameBody, ReceivedFrame } from '../frames/frame.ts';
import { PEER_LOST_REASON, resumeKind, resumeMark } from '../frames/frame-markers.ts';
import {
  MAX_SILENT_RETRANSMITS,
  PROBE_TIMEOUT_MS,
  RESUME_WINDOW_MS,
  RETRANSMIT_MAX_MS,
  RETRANSMIT_MIN_MS,
} from '../limits.ts';
import { type Ack, AckScheduler } from './acks.ts';
import type { InboundMessages } from './inbound-messages.ts';
import type { Placement } from './reorder-window.ts';
import { SendBuffer, type SentRecord } from './send-buffer.ts';

/** What the other parts of a stream do for its reliability. */
export interface ReliabilityEvents {
  /** There is something to send. */
  wake(): void;
  /** Sends a frame that is no record. */
  send(body: FrameBody, ackBits: number): void;
  /** The peer does not come back. */
  failed(reason: string): void;
}

/**
 * Makes sure that each record arrives though frames get lost and pipes break. Between two ends of this kind only: both acknowledge
 * what they have read, repeat what was not acknowledged, byte for byte, and go on with a new pipe where they were.
 */
export class Reliability {
  readonly #inbound: InboundMessages;
  readonly #events: ReliabilityEvents;
  readonly #acks: AckScheduler;
  readonly #buffer = new SendBuffer();
  /** Runs while the peer owes an ack, or an answer to the question whether it goes on. */
  #timeout: NodeJS.Timeout | null = null;
  #timeoutMs = RETRANSMIT_MIN_MS;
  #silentTimeouts = 0;
  /** Runs while the peer is away. */
  #window: NodeJS.Timeout | null = null;
  #asking = false;
  /** Runs while the peer is asked for a sign of life. */
  #probe: NodeJS.Timeout | null = null;

  constructor(inbound: InboundMessages, events: ReliabilityEvents) {
    this.#inbound = inbound;
    this.#events = events;
    this.#acks = new AckScheduler(inbound, () => events.wake());
  }

  /** Whether the peer is away, so that nothing is sent. */
  get waiting(): boolean {
    return this.#window !== null;
  }

  get full(): boolean {
    return this.#buffer.full;
  }

  /** Whether the peer has everything that was sent. */
  get settled(): boolean {
    return this.#buffer.empty;
  }

  /** The peer is away, for a while. */
  peerLost(): void {
    this.#asking = false;
    this.#stopTimeout();
    this.#window ??= setTimeout(() => this.#events.failed('the peer has not come back'), RESUME_WINDOW_MS);
  }

  /** Whether a reset only says that the peer is away for a while. */
  survives(resetReason: string): boolean {
    if (resetReason !== PEER_LOST_REASON) return false;
    this.peerLost();
    return true;
  }

  /** Asks the peer to go on, until it answers. */
  ask(): void {
    this.peerLost();
    this.#asking = true;
    this.#sendResume('request');
    this.#startTimeout();
  }

  /** Gives up a peer that is away, or shows no sign of life when it is asked for one. */
  probe(): void {
    if (this.waiting) {
      setImmediate(() => this.#events.failed('the peer was away when it was wanted'));
    } else if (this.#probe === null) {
      this.#sendResume('request');
      this.#probe = setTimeout(() => this.#events.failed('the peer does not answer'), PROBE_TIMEOUT_MS);
    }
  }

  /** Takes what a frame says besides its record. Throws RelayError when it makes no sense. */
  receive(frame: ReceivedFrame): void {
    this.#silentTimeouts = 0;
    this.#endProbe();
    const { ack, ackBits, body } = frame;
    if (body.kind === 'resume') this.#resume(body.nextSeq, frame);
    // Zeros say nothing, but for the ack of record 0, which needs a frame of its own.
    else if (body.kind === 'ack' || ack > 0 || ackBits > 0) this.#acknowledged(ack, ackBits);
  }

  /** A record has been taken in. */
  arrived(placement: Placement): void {
    this.#acks.arrived(placement);
  }

  /** The reader may have taken messages, which makes room for the peer. */
  consumed(): void {
    this.#acks.later();
  }

  /** A new record leaves. */
  sent(payload: Uint8Array): void {
    this.#buffer.add(payload);
    if (this.#timeout === null) this.#startTimeout();
  }

  /** A record that has to leave again. */
  takeRepeat(): SentRecord | null {
    return this.#buffer.takeRepeat();
  }

  /** The ack that rides on a record. */
  ackForRecord(): Ack | undefined {
    const ack = this.#acks.current;
    if (ack === null) return undefined;
    if (ack.ack > 0 || ack.ackBits > 0) this.#acks.sent();
    return ack;
  }

  /** A frame with nothing but an ack, when one is due; as long as there is nothing to acknowledge, a sign of life. */
  takeAck(): (Partial<Ack> & { readonly body: FrameBody }) | null {
    if (!this.#acks.due) return null;
    this.#acks.sent();
    const ack = this.#acks.current;
    return ack === null ? { body: { kind: 'heartbeat' } } : { ...ack, body: { kind: 'ack' } };
  }

  stop(): void {
    this.#stopTimeout();
    this.#endWindow();
    this.#endProbe();
    this.#acks.stop();
  }

  #resume(nextSeq: number, frame: ReceivedFrame): void {
    const kind = resumeKind(frame);
    // When both ends ask, the question of the peer tells as much as its answer.
    if (kind === null || (kind === 'answer' && !this.#asking)) return;
    this.#endWindow();
    this.#asking = false;
    this.#timeoutMs = RETRANSMIT_MIN_MS;
    this.#buffer.resumeAt(nextSeq);
    if (kind === 'request') this.#sendResume('answer');
    this.#restartTimeout();
    this.#events.wake();
  }

  #acknowledged(ack: number, ackBits: number): void {
    if (this.#buffer.acknowledge(ack, ackBits)) {
      this.#timeoutMs = RETRANSMIT_MIN_MS;
      this.#restartTimeout();
    }
    this.#events.wake();
  }

  #sendResume(kind: 'request' | 'answer'): void {
    this.#events.send({ kind: 'resume', nextSeq: this.#inbound.consumed }, resumeMark(kind));
  }

  #timedOut(): void {
    this.#timeout = null;
    this.#silentTimeouts++;
    if (this.#silentTimeouts > MAX_SILENT_RETRANSMITS) {
      this.#events.failed('the peer does not answer');
      return;
    }
    this.#timeoutMs = Math.min(2 * this.#timeoutMs, RETRANSMIT_MAX_MS);
    if (this.#asking) this.#sendResume('request');
    else this.#buffer.timedOut();
    this.#startTimeout();
    this.#events.wake();
  }

  #startTimeout(): void {
    this.#timeout = setTimeout(() => this.#timedOut(), this.#timeoutMs);
    this.#timeout.unref();
  }

  #restartTimeout(): void {
    this.#stopTimeout();
    if (this.#asking || !this.#buffer.empty) this.#startTimeout();
  }

  #stopTimeout(): void {
    if (this.#timeout !== null) clearTimeout(this.#timeout);
    this.#timeout = null;
  }

  #endProbe(): void {
    if (this.#probe !== null) clearTimeout(this.#probe);
    this.#probe = null;
  }

  #endWindow(): void {
    if (this.#window !== null) clearTimeout(this.#window);
    this.#window = null;
  }
}
