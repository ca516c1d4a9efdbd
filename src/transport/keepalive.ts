import { WebSocket } from 'ws';
import { uptimeMs } from '../base/uptime.ts';
import { PROBE_TIMEOUT_MS } from './limits.ts';

/** When to ping a peer, and when to drop it. */
export interface KeepaliveOptions {
  /** 0 disables pings. */
  readonly pingIntervalMs: number;
  /** A peer that sends nothing for this long, despite pings, is dropped. 0 disables it. */
  readonly peerSilenceTimeoutMs: number;
}

/** What is known about the bytes of a peer. */
interface PeerActivity {
  /** Bytes received so far, if known. */
  readonly bytesRead?: number | undefined;
  /** Whether this end reads at the moment. Otherwise the silence of the peer means nothing. */
  readonly isReading: boolean;
}

/**
 * Answers pings, sends pings at an interval, and drops a silent peer. Any received bytes count as a sign of life,
 * because a pong may wait for minutes behind a large frame. While receiving is paused the peer cannot be checked
 * and is kept.
 */
export class Keepalive {
  readonly #ws: WebSocket;
  readonly #peer: PeerActivity;
  readonly #silenceMs: number;
  #timer: NodeJS.Timeout | null = null;
  #probe: NodeJS.Timeout | null = null;
  #lastReceivedAt = uptimeMs();
  /** When the last whole message or control frame arrived. */
  #lastMessageAt = this.#lastReceivedAt;
  /** Called with the next message or control frame. */
  #confirmations: (() => void)[] = [];
  #nextTickAt = 0;
  #tickMs = 0;
  #bytesSeen: number | undefined;
  /** The payload of the latest ping without an answer, and whether the pong before it is still being sent. */
  #pingToAnswer: Buffer | null = null;
  #isAnswering = false;

  constructor(ws: WebSocket, options: KeepaliveOptions, peer: PeerActivity) {
    this.#ws = ws;
    this.#peer = peer;
    this.#bytesSeen = peer.bytesRead;
    this.#silenceMs = options.peerSilenceTimeoutMs;
    ws.on('ping', (data) => {
      this.#receivedControl();
      this.#pingToAnswer = data;
      this.#answer();
    });
    ws.on('pong', () => this.#receivedControl());
    if (options.pingIntervalMs > 0) {
      // An idle peer sends only pongs, so it must be pinged before its time is up.
      const answerTimeMs = this.#silenceMs > 0 ? this.#silenceMs / 2 : options.pingIntervalMs;
      this.#tickMs = Math.min(options.pingIntervalMs, answerTimeMs);
      this.#nextTickAt = uptimeMs() + this.#tickMs;
      this.#timer = setInterval(() => this.#tick(), this.#tickMs);
      this.#timer.unref();
    }
  }

  /** A message has arrived. */
  received(): void {
    this.#lastMessageAt = uptimeMs();
    this.#alive();
    if (this.#confirmations.length === 0) return;
    for (const confirmed of this.#confirmations.splice(0)) confirmed();
  }

  /** Calls back when a message arrived after that time. Pings a peer that has sent none. */
  confirmReceived(sentBeforeMs: number, confirmed: () => void): void {
    if (this.#lastMessageAt > sentBeforeMs) {
      confirmed();
      return;
    }
    // One ping serves all that wait.
    if (this.#confirmations.push(confirmed) === 1 && this.#ws.readyState === WebSocket.OPEN) this.#ws.ping();
  }

  /** Pings the peer and drops it if nothing arrives in time. A peer is kept while receiving is paused. */
  probe(): void {
    if (this.#probe !== null || this.#ws.readyState !== WebSocket.OPEN) return;
    this.#checkBytesRead();
    const askedAt = uptimeMs();
    this.#ws.ping();
    this.#probe = setTimeout(() => {
      this.#probe = null;
      this.#checkBytesRead();
      if (this.#lastReceivedAt < askedAt && this.#peer.isReading) this.#ws.terminate();
    }, PROBE_TIMEOUT_MS);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#probe !== null) clearTimeout(this.#probe);
    this.#confirmations = [];
  }

  /**
   * Answers the latest ping only, which RFC 6455 (section 5.5.3) allows. There is one pong at a time, so that a peer
   * that pings without reading cannot fill the memory.
   */
  #answer(): void {
    const data = this.#pingToAnswer;
    if (data === null || this.#isAnswering || this.#ws.readyState !== WebSocket.OPEN) return;
    this.#pingToAnswer = null;
    this.#isAnswering = true;
    this.#ws.pong(data, undefined, () => {
      this.#isAnswering = false;
      this.#answer();
    });
  }

  /** Counts the bytes of a control frame once. */
  #receivedControl(): void {
    this.#checkBytesRead();
    this.received();
  }

  #alive(): void {
    this.#lastReceivedAt = uptimeMs();
  }

  #checkBytesRead(): void {
    const bytesRead = this.#peer.bytesRead;
    if (bytesRead === this.#bytesSeen) return;
    this.#bytesSeen = bytesRead;
    this.#alive();
  }

  #tick(): void {
    this.#checkBytesRead();
    const nowMs = uptimeMs();
    // If this process was stopped or busy for long, what the peer has sent meanwhile is not read yet.
    const wasLate = nowMs - this.#nextTickAt > this.#silenceMs / 2;
    this.#nextTickAt = nowMs + this.#tickMs;
    if (!this.#peer.isReading || wasLate) this.#alive();
    const silentMs = nowMs - this.#lastReceivedAt;
    if (this.#silenceMs > 0 && silentMs > this.#silenceMs) {
      this.#ws.terminate();
    } else if (this.#ws.readyState === WebSocket.OPEN) {
      this.#ws.ping();
    }
  }
}
