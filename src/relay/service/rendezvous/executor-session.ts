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

/** From whom a frame comes. */
export type Sender = 'executor' | 'harness';

/** Why a frame went nowhere. */
export type DropCause = 'invalid' | 'noStream' | 'refusedStream';

/** What a seat needs of its rendezvous. */
export interface ExecutorSessionHost {
  /** What waits in all environments. */
  readonly window: ByteBudget;
  forwarded(sender: Sender, bytes: number): void;
  dropped(sender: Sender, cause: DropCause): void;
  /** A socket was cut off because it held up the others. */
  slowDisconnected(): void;
  /** A harness has left. */
  harnessGone(): void;
  /** The executor is gone, and the harnesses are told. Called once. */
  ended(reason: CloseReason): void;
}

/**
 * One connected executor and its harnesses. Frames pass unchanged and in order; of their contents only the stream and the kind are
 * looked at. Nothing is dropped that has somewhere to go: when bytes wait for one side, the other is no longer read.
 */
export class ExecutorSession {
  readonly #host: ExecutorSessionHost;
  readonly #executor: PeerSocket;
  readonly #harnesses = new Set<Harness>();
  readonly #streams = new Map<string, Harness>();
  /** The keys of harnesses that are gone, by the streams which they may come back for; the longest gone first. */
  readonly #away = new Map<string, string>();
  readonly #window = new ByteBudget(ENVIRONMENT_WINDOW_BYTES, () => this.updateReading());
  /** Runs while the sockets together hold up each other. */
  #congestionTimer: NodeJS.Timeout | null = null;
  #ended = false;

  constructor(socket: FrameSocket, host: ExecutorSessionHost) {
    this.#host = host;
    this.#executor = new PeerSocket(socket, {
      frame: (bytes) => this.#fromExecutor(bytes),
      waiting: (bytes) => this.#count(bytes),
      filled: () => this.updateReading(),
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

  /** Whether another harness finds a place. */
  get hasRoom(): boolean {
    return this.#harnesses.size < MAX_HARNESSES_PER_ENVIRONMENT;
  }

  open(): void {
    this.#executor.open();
    this.updateReading();
  }

  /** Joins a harness; `keyHash` is that of the key it has shown. `gone` is told of its end. */
  join(socket: FrameSocket, keyHash: string, gone: (reason: CloseReason) => void): void {
    const harness: Harness = {
      keyHash,
      gone,
      streams: new Set(),
      peer: new PeerSocket(socket, {
        frame: (bytes) => this.#fromHarness(harness, bytes),
        waiting: (bytes) => this.#count(bytes),
        filled: () => this.updateReading(),
        stalled: () => this.#disconnect(harness.peer),
        closed: (reason) => this.#harnessGone(harness, reason),
      }),
    };
    this.#harnesses.add(harness);
    harness.peer.open();
    if (this.#ended) harness.peer.close(EXECUTOR_GONE);
    else this.updateReading();
  }

  close(reason: CloseReason): void {
    this.#executor.close(reason);
  }

  /** Reads from who may send now. Also called when the bytes of all environments have become too many, or are no longer. */
  updateReading(): void {
    const congested = this.#window.full || this.#host.window.full;
    const readExecutor = !congested && ![...this.#harnesses].some(({ peer }) => peer.full);
    const readHarnesses = !congested && !this.#executor.full;
    this.#executor.setReading(readExecutor);
    for (const { peer } of this.#harnesses) peer.setReading(readHarnesses);
    this.#watchCongestion(congested);
  }

  #fromHarness(harness: Harness, bytes: Uint8Array): void {
    const frame = read(bytes);
    if (frame === null) {
      this.#host.dropped('harness', 'invalid');
      harness.peer.close({ code: CloseCode.policyViolation, reason: 'a message is not a relay frame' });
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
    // Answers that nobody reads must not gather, and hold up the executor.
    if (peer.full) peer.drop();
    else peer.send(reset(streamId, RESET_REASON));
  }

  /** What makes no sense is left out: the executor's other streams have nothing to do with it. */
  #fromExecutor(bytes: Uint8Array): void {
    const frame = read(bytes);
    const harness = frame === null ? undefined : this.#streams.get(frame.streamId);
    if (frame === null || harness === undefined) {
      // A harness that is gone has been reported; what was under way to it is nobody's.
      this.#host.dropped('executor', frame === null ? 'invalid' : 'noStream');
      return;
    }
    harness.peer.send(bytes);
    this.#host.forwarded('executor', bytes.length);
    if (frame.body.kind === 'reset') this.#unbind(harness, frame.streamId);
  }

  /** Whether the stream is the harness's, which it becomes with its first frame. */
  #bind(harness: Harness, frame: ReceivedFrame): boolean {
    const { streamId } = frame;
    const owner = this.#streams.get(streamId);
    if (owner === harness) return true;
    if (owner !== undefined) {
      // A harness that comes back may be faster than the news that its old socket is gone. Nobody else has its key.
      const comesBack = frame.body.kind === 'resume' && resumeKind(frame) === 'request';
      if (!comesBack || owner.keyHash !== harness.keyHash) return false;
      this.#unbind(owner, streamId);
    } else if ((this.#away.get(streamId) ?? harness.keyHash) !== harness.keyHash) {
      return false;
    }
    if (
      streamId.length > MAX_STREAM_ID_CHARS ||
      harness.streams.size >= MAX_STREAMS_PER_HARNESS ||
      this.#streams.size >= MAX_STREAMS_PER_ENVIRONMENT
    ) {
      return false;
    }
    this.#away.delete(streamId);
    this.#streams.set(streamId, harness);
    harness.streams.add(streamId);
    return true;
  }

  #unbind(harness: Harness, streamId: string): void {
    harness.streams.delete(streamId);
    this.#streams.delete(streamId);
  }

  /** The executor learns which streams have lost their peer. Those that can be resumed wait for it, the others end. */
  #harnessGone(harness: Harness, reason: CloseReason): void {
    this.#harnesses.delete(harness);
    for (const streamId of [...harness.streams]) {
      this.#unbind(harness, streamId);
      this.#keepFor(harness, streamId);
      this.#executor.send(reset(streamId, PEER_LOST_REASON));
    }
    harness.gone(reason);
    this.#host.harnessGone();
    if (!this.#ended) this.updateReading();
  }

  /** Nobody else may have the stream while its harness is away. */
  #keepFor({ keyHash }: Harness, streamId: string): void {
    this.#away.set(streamId, keyHash);
    const [oldest] = this.#away.keys();
    if (this.#away.size > MAX_STREAMS_PER_ENVIRONMENT && oldest !== undefined) this.#away.delete(oldest);
  }

  /** A closed socket makes each harness ask where the executor is now, which may be another node. */
  #executorGone(reason: CloseReason): void {
    this.#ended = true;
    this.#watchCongestion(false);
    for (const { peer, streams } of this.#harnesses) {
      for (const streamId of streams) this.#streams.delete(streamId);
      streams.clear();
      peer.close(EXECUTOR_GONE);
    }
    this.#host.ended(reason);
  }

  #count(bytes: number): void {
    for (const window of [this.#window, this.#host.window]) {
      if (bytes > 0) window.add(bytes);
      else window.remove(-bytes);
    }
  }

  #watchCongestion(congested: boolean): void {
    if (!congested && this.#congestionTimer !== null) {
      clearTimeout(this.#congestionTimer);
      this.#congestionTimer = null;
    } else if (congested && !this.#ended) {
      this.#congestionTimer ??= setTimeout(() => this.#disconnectSlowest(), STALL_TIMEOUT_MS);
    }
  }

  /** No socket has too much waiting, but all of them together have. */
  #disconnectSlowest(): void {
    this.#congestionTimer = null;
    const peers = [this.#executor, ...[...this.#harnesses].map(({ peer }) => peer)];
    const slowest = peers.reduce((most, peer) => (peer.waitingBytes > most.waitingBytes ? peer : most));
    if (slowest.waitingBytes > 0) this.#disconnect(slowest);
    this.updateReading();
  }

  /** Whoever does not read must not stop those who do. */
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

const EXECUTOR_GONE = { code: CloseCode.tryAgainLater, reason: 'the executor is gone' };

/** Null for what is not a frame. */
function read(bytes: Uint8Array): ReceivedFrame | null {
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
