import type { FrameBody, ReceivedFrame, Segment } from '../frames/frame.ts';
import { PEER_LOST_REASON, resumeKind, resumeMarker } from '../frames/frame-markers.ts';
import {
  MAX_SILENT_RETRANSMITS,
  PROBE_TIMEOUT_MS,
  RESUME_WINDOW_MS,
  RETRANSMIT_MAX_MS,
  RETRANSMIT_MIN_MS,
} from '../limits.ts';
import { type Ack, AckScheduler } from './acks.ts';
import type { InboundMessages, Placement } from './inbound-messages.ts';
import { SendBuffer, type SentRecord } from './send-buffer.ts';

/** Callbacks of the stream. */
interface ReliabilityEvents {
  /** Schedules sending. */
  wake(): void;
  /** Sends a frame without a record. */
  send(body: FrameBody, ackBits: number): void;
  /** The peer did not reconnect or does not answer. */
  failed(reason: string): void;
}

/**
 * Delivers each record even if frames are lost and pipes break. It works only if both peers support it. Both acknowledge the records
 * they have read, retransmit unacknowledged records unchanged, and resume over a new pipe where they stopped.
 */
export class Reliability {
  readonly #inbound: InboundMessages;
  readonly #events: ReliabilityEvents;
  readonly #acks: AckScheduler;
  readonly #buffer = new SendBuffer();
  /** Runs while an ack or the answer to a resume request is outstanding. */
  #timeout: NodeJS.Timeout | null = null;
  #timeoutMs = RETRANSMIT_MIN_MS;
  #silentTimeouts = 0;
  /** Runs while the peer is disconnected. */
  #window: NodeJS.Timeout | null = null;
  #resuming = false;
  #settledCallbacks: (() => void)[] = [];
  /** Runs while a probe is unanswered. */
  #probe: NodeJS.Timeout | null = null;

  constructor(inbound: InboundMessages, events: ReliabilityEvents) {
    this.#inbound = inbound;
    this.#events = events;
    this.#acks = new AckScheduler(inbound, () => events.wake());
  }

  /** Whether the peer is disconnected. Nothing is sent then. */
  get waiting(): boolean {
    return this.#window !== null;
  }

  get full(): boolean {
    return this.#buffer.full;
  }

  /** Whether the peer has acknowledged all records. */
  get settled(): boolean {
    return this.#buffer.empty;
  }

  /** Calls back when the peer is connected and has acknowledged all records. */
  whenSettled(settled: () => void): void {
    if (this.settled && !this.waiting) settled();
    else this.#settledCallbacks.push(settled);
  }

  /** Starts waiting for the peer to reconnect. */
  peerLost(): void {
    this.#resuming = false;
    this.#stopTimeout();
    this.#window ??= setTimeout(
      () => this.#events.failed('the peer did not reconnect in time'),
      RESUME_WINDOW_MS,
    );
  }

  /** Whether a reset only reports that the peer lost its connection. If so, starts waiting for it. */
  survives(resetReason: string): boolean {
    if (resetReason !== PEER_LOST_REASON) return false;
    this.peerLost();
    return true;
  }

  /** Sends resume requests until the peer answers. */
  requestResume(): void {
    this.peerLost();
    this.#resuming = true;
    this.#sendResume('request');
    this.#startTimeout();
  }

  /** Fails the stream if the peer is disconnected, or if it does not answer in time. */
  probe(): void {
    if (this.waiting) {
      setImmediate(() => this.#events.failed('the peer is disconnected'));
    } else if (this.#probe === null) {
      this.#sendResume('request');
      this.#probe = setTimeout(() => this.#events.failed('the peer does not answer'), PROBE_TIMEOUT_MS);
    }
  }

  /** Handles the acks and the resume of a frame. Throws RelayError when they are invalid. */
  receive(frame: ReceivedFrame): void {
    this.#silentTimeouts = 0;
    this.#endProbe();
    const { ack, ackBits, body } = frame;
    if (body.kind === 'resume') this.#resume(body.nextSeq, frame);
    // Zeros carry no ack. The ack of record 0 alone is a separate frame.
    else if (body.kind === 'ack' || ack > 0 || ackBits > 0) this.#acknowledged(ack, ackBits);
    if (this.settled && !this.waiting) for (const settled of this.#settledCallbacks.splice(0)) settled();
  }

  /** Acknowledges a received record. */
  arrived(placement: Placement): void {
    this.#acks.arrived(placement);
  }

  /** Schedules an ack, because the reader may have consumed messages and opened the peer's send window. */
  consumed(): void {
    this.#acks.schedule();
  }

  /** Keeps a new record until the peer acknowledges it. */
  sent(payload: Uint8Array, segment: Segment | undefined): void {
    this.#buffer.add(payload, segment);
    if (this.#timeout === null) this.#startTimeout();
  }

  /** Returns the next record to retransmit. */
  takeRetransmit(): SentRecord | null {
    return this.#buffer.takeRetransmit();
  }

  /** Returns the ack to send with a record. */
  ackForRecord(): Ack | undefined {
    const ack = this.#acks.current;
    if (ack === null) return undefined;
    if (ack.ack > 0 || ack.ackBits > 0) this.#acks.sent();
    return ack;
  }

  /** Returns a frame with only an ack when one is due. Before the first consumed record it is a heartbeat. */
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
    this.#settledCallbacks = [];
  }

  #resume(nextSeq: number, frame: ReceivedFrame): void {
    const kind = resumeKind(frame);
    // When both peers send requests, the request of the peer also serves as its answer.
    if (kind === null || (kind === 'answer' && !this.#resuming)) return;
    this.#endWindow();
    this.#resuming = false;
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
    this.#events.send({ kind: 'resume', nextSeq: this.#inbound.consumed }, resumeMarker(kind));
  }

  #timedOut(): void {
    this.#timeout = null;
    this.#silentTimeouts++;
    if (this.#silentTimeouts > MAX_SILENT_RETRANSMITS) {
      this.#events.failed('the peer does not answer');
      return;
    }
    this.#timeoutMs = Math.min(2 * this.#timeoutMs, RETRANSMIT_MAX_MS);
    if (this.#resuming) this.#sendResume('request');
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
    if (this.#resuming || !this.#buffer.empty) this.#startTimeout();
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
