import { ByteBudget } from '../../../base/byte-budget.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import { CloseCode, type CloseReason } from '../../../transport/transport.ts';
import { RelayError } from '../../errors.ts';
import { decodeFrame, encodeFrame, type ReceivedFrame } from '../../frames/frame.ts';
import { PEER_LOST_REASON, RESET_REASON, resumeKind } from '../../frames/frame-markers.ts';
import {
  ENVIRONMENT_WINDOW_BYTES,
  MAX_HARNESSES_PER_ENVIRONMENT,
  MAX_STREAM_ID_CHARS,
  MAX_STREAMS_PER_ENVIRONMENT,
  MAX_STREAMS_PER_HARNESS,
  STALL_TIMEOUT_MS,
} from '../limits.ts';
import { PeerSocket } from './peer-socket.ts';

/** The sender of a frame. */
export type Sender = 'executor' | 'harness';

/** Why a frame was dropped. */
export type DropCause = 'invalid' | 'noStream' | 'refusedStream';

/** Callbacks and shared state of the rendezvous. */
interface ExecutorSessionHost {
  /** Bytes queued in all environments. */
  readonly window: ByteBudget;
  /** Bytes that each environment may queue while all together exceed their limit. */
  shareBytes(): number;
  forwarded(sender: Sender, bytes: number): void;
  dropped(sender: Sender, cause: DropCause): void;
  /** A socket was disconnected because it blocked the others. */
  slowDisconnected(): void;
  /** A harness has disconnected. */
  harnessGone(): void;
  /** The executor has disconnected and the harnesses are being closed. Called once. */
  ended(reason: CloseReason): void;
}

/**
 * One connected executor and its harnesses. Forwards frames unchanged and in order, and reads only their stream id and kind. It drops
 * no frame that has a destination: when too many bytes are queued for one side, it stops reading from the other.
 */
export class ExecutorSession {
  readonly #host: ExecutorSessionHost;
  readonly #executor: PeerSocket;
  readonly #harnesses = new Set<Harness>();
  readonly #streams = new Map<string, Harness>();
  /** Key hashes of disconnected harnesses by the streams that they may resume, oldest first. */
  readonly #resumable = new Map<string, string>();
  readonly #window = new ByteBudget(ENVIRONMENT_WINDOW_BYTES, () => this.updateReading());
  #congested = false;
  /** Runs while the queued bytes of all sockets together exceed a limit. */
  #congestionTimer: NodeJS.Timeout | null = null;
  #ended = false;

  constructor(socket: FrameSocket, host: ExecutorSessionHost) {
    this.#host = host;
    this.#executor = new PeerSocket(socket, {
      frame: (bytes) => this.#fromExecutor(bytes),
      queued: (bytes) => this.#count(bytes),
      fullChanged: () => this.updateReading(),
      stalled: () => this.#disconnect(this.#executor),
      closed: (reason) => this.#executorGone(reason),
    });
  }

  get harnessCount(): number {
    return this.#harnesses.size;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** Whether another harness may join. */
  get acceptsHarness(): boolean {
    return this.#harnesses.size < MAX_HARNESSES_PER_ENVIRONMENT;
  }

  open(): void {
    this.#executor.open();
    this.updateReading();
  }

  /** Adds a harness. `keyHash` is the hash of its key. Calls `gone` when it disconnects. */
  join(socket: FrameSocket, keyHash: string, gone: (reason: CloseReason) => void): void {
    const harness: Harness = {
      keyHash,
      gone,
      streams: new Set(),
      peer: new PeerSocket(socket, {
        frame: (bytes) => this.#fromHarness(harness, bytes),
        queued: (bytes) => this.#count(bytes),
        fullChanged: () => this.updateReading(),
        stalled: () => this.#disconnect(harness.peer),
        closed: (reason) => this.#harnessGone(harness, reason),
      }),
    };
    this.#harnesses.add(harness);
    harness.peer.open();
    if (this.#ended) harness.peer.close(EXECUTOR_DISCONNECTED);
    else this.updateReading();
  }

  close(reason: CloseReason): void {
    this.#executor.close(reason);
  }

  /** Pauses or resumes reading from the sockets. Also called when the limit of all environments is reached or cleared. */
  updateReading(): void {
    const congested = this.#isCongested();
    this.#congested = congested;
    const readExecutor = !congested && ![...this.#harnesses].some(({ peer }) => peer.full);
    const readHarnesses = !congested && !this.#executor.full;
    this.#executor.setReading(readExecutor);
    for (const { peer } of this.#harnesses) peer.setReading(readHarnesses);
    this.#watchCongestion(congested);
  }

  #fromHarness(harness: Harness, bytes: Uint8Array): void {
    const frame = decode(bytes);
    if (frame === null) {
      this.#host.dropped('harness', 'invalid');
      harness.peer.close({ code: CloseCode.policyViolation, reason: 'a message is not a valid relay frame' });
    } else if (this.#bind(harness, frame)) {
      this.#executor.send(bytes);
      this.#host.forwarded('harness', bytes.length);
      if (frame.body.kind === 'reset') this.#unbind(harness, frame.streamId);
    } else {
      this.#host.dropped('harness', 'refusedStream');
      this.#refuse(harness, frame.streamId);
    }
  }

  #refuse({ peer }: Harness, streamId: string): void {
    // Unread resets must not accumulate and block the executor.
    if (peer.full) peer.drop();
    else peer.send(reset(streamId, RESET_REASON));
  }

  /** Drops an invalid frame, because it does not affect the executor's other streams. */
  #fromExecutor(bytes: Uint8Array): void {
    const frame = decode(bytes);
    const harness = frame === null ? undefined : this.#streams.get(frame.streamId);
    if (frame === null || harness === undefined) {
      // The executor has been notified that the harness is gone. Frames in flight to it have no destination.
      this.#host.dropped('executor', frame === null ? 'invalid' : 'noStream');
      return;
    }
    harness.peer.send(bytes);
    this.#host.forwarded('executor', bytes.length);
    if (frame.body.kind === 'reset') this.#unbind(harness, frame.streamId);
  }

  /** Whether the harness owns the stream. The first frame of a stream makes its sender the owner. */
  #bind(harness: Harness, frame: ReceivedFrame): boolean {
    const { streamId } = frame;
    const owner = this.#streams.get(streamId);
    if (owner === harness) return true;
    if (owner !== undefined) {
      // A harness may reconnect before the close of its old socket is noticed. Its key identifies it.
      const resumes = frame.body.kind === 'resume' && resumeKind(frame) === 'request';
      if (!resumes || owner.keyHash !== harness.keyHash) return false;
      this.#unbind(owner, streamId);
    } else if ((this.#resumable.get(streamId) ?? harness.keyHash) !== harness.keyHash) {
      return false;
    }
    if (
      streamId.length > MAX_STREAM_ID_CHARS ||
      harness.streams.size >= MAX_STREAMS_PER_HARNESS ||
      this.#streams.size >= MAX_STREAMS_PER_ENVIRONMENT
    ) {
      return false;
    }
    this.#resumable.delete(streamId);
    this.#streams.set(streamId, harness);
    harness.streams.add(streamId);
    return true;
  }

  #unbind(harness: Harness, streamId: string): void {
    harness.streams.delete(streamId);
    this.#streams.delete(streamId);
  }

  /** Notifies the executor of streams that lost their peer. Resumable streams wait for the harness, the others end. */
  #harnessGone(harness: Harness, reason: CloseReason): void {
    this.#harnesses.delete(harness);
    for (const streamId of [...harness.streams]) {
      this.#unbind(harness, streamId);
      this.#reserveFor(harness, streamId);
      this.#executor.send(reset(streamId, PEER_LOST_REASON));
    }
    harness.gone(reason);
    this.#host.harnessGone();
    if (!this.#ended) this.updateReading();
  }

  /** Reserves the stream for its harness while the harness is disconnected. */
  #reserveFor({ keyHash }: Harness, streamId: string): void {
    this.#resumable.set(streamId, keyHash);
    const [oldest] = this.#resumable.keys();
    if (this.#resumable.size > MAX_STREAMS_PER_ENVIRONMENT && oldest !== undefined)
      this.#resumable.delete(oldest);
  }

  /** Closes all harness sockets. Each harness then asks the registry where the executor is, perhaps at another node. */
  #executorGone(reason: CloseReason): void {
    this.#ended = true;
    this.#watchCongestion(false);
    for (const { peer, streams } of this.#harnesses) {
      for (const streamId of streams) this.#streams.delete(streamId);
      streams.clear();
      peer.close(EXECUTOR_DISCONNECTED);
    }
    this.#host.ended(reason);
  }

  #count(bytes: number): void {
    for (const window of [this.#window, this.#host.window]) {
      if (bytes > 0) window.add(bytes);
      else window.remove(-bytes);
    }
    if (this.#congested !== this.#isCongested()) this.updateReading();
  }

  /** Whether the environment has too many queued bytes, or more than its share while all environments together have too many. */
  #isCongested(): boolean {
    const { window, shareBytes } = this.#host;
    return this.#window.full || (window.full && this.#window.bytes > shareBytes());
  }

  #watchCongestion(congested: boolean): void {
    if (!congested && this.#congestionTimer !== null) {
      clearTimeout(this.#congestionTimer);
      this.#congestionTimer = null;
    } else if (congested && !this.#ended) {
      this.#congestionTimer ??= setTimeout(() => this.#disconnectSlowest(), STALL_TIMEOUT_MS);
    }
  }

  /** Disconnects the socket with the most queued bytes. No single socket exceeds its limit, but all together do. */
  #disconnectSlowest(): void {
    this.#congestionTimer = null;
    const peers = [this.#executor, ...[...this.#harnesses].map(({ peer }) => peer)];
    const slowest = peers.reduce((most, peer) => (peer.queuedBytes > most.queuedBytes ? peer : most));
    if (slowest.queuedBytes > 0) this.#disconnect(slowest);
    this.updateReading();
  }

  /** Disconnects a socket that does not read and therefore blocks the others. */
  #disconnect(peer: PeerSocket): void {
    this.#host.slowDisconnected();
    peer.drop();
  }
}

interface Harness {
  readonly peer: PeerSocket;
  readonly keyHash: string;
  readonly streams: Set<string>;
  readonly gone: (reason: CloseReason) => void;
}

const EXECUTOR_DISCONNECTED = { code: CloseCode.tryAgainLater, reason: 'the executor disconnected' };

/** Returns null for an invalid frame. */
function decode(bytes: Uint8Array): ReceivedFrame | null {
  try {
    return decodeFrame(bytes);
  } catch (error) {
    if (error instanceof RelayError) return null;
    throw error;
  }
}

function reset(streamId: string, reason: string): Uint8Array {
  return encodeFrame({ streamId, body: { kind: 'reset', reason } });
}
