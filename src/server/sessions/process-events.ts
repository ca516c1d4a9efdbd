import type { ProcessListener } from '../../process/managed-process.ts';
import type { LimitReason } from '../../process/resources/resource-limits.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { Notification, NotificationParamsOf } from '../../protocol/registry.ts';
import { base64Length, writeBase64 } from '../../rpc/base64.ts';
import { FixedBufferPool } from '../../transport/buffer-pool.ts';
import { FRAME_POOL_SIZE, POOLED_FRAME_BYTES, POOLED_FRAME_MIN_BYTES } from '../limits.ts';

/** Receives events: the attached connection, if there is one. */
export interface EventSink {
  /** False while the session is detached: the output log keeps the output, and nothing needs to be encoded. */
  readonly attached: boolean;
  /** `released` is called when the frame may be overwritten. */
  sendBulk(frame: Uint8Array, released?: () => void): void;
  /** Sends a copy of the bytes without encoding them, where the connection can; returns whether it can. */
  sendBulkBytes?(text: () => string, field: string, bytes: Uint8Array): boolean;
}

/** The method family whose notifications a process sends; the method that started it determines this. */
export type Dialect = 'process' | 'command';

/** Sends the events of a process. */
export interface ProcessNotifier extends ProcessListener {
  /** Reports events that are not sent, from the first to the last of them. */
  skipped(fromSeq: number, toSeq: number): void;
}

/** Turns the events of a process into notifications of its dialect. */
export function processNotifier(processId: string, dialect: Dialect, sink: EventSink): ProcessNotifier {
  return {
    ...(dialect === 'process' ? processEvents(processId, sink) : commandEvents(processId, sink)),
    skipped: (fromSeq, toSeq) => send(sink, 'process/skipped', { processId, fromSeq, toSeq }),
  };
}

function processEvents(processId: string, sink: EventSink): ProcessListener {
  const beforeSeq = outputPrefix(processId);
  return {
    output: (seq, stream, bytes) => {
      if (sink.attached) sendChunk(sink, beforeSeq, afterSeqOf(seq, stream), bytes);
    },
    exited: (seq, exitCode, reason, sandboxDenied) =>
      send(sink, 'process/exited', { processId, seq, exitCode, sandboxDenied, ...given(reason) }),
    closed: (seq, reason) => send(sink, 'process/closed', { processId, seq, ...given(reason) }),
  };
}

/** Sends a chunk of output to several connections that know the process by the same id. Encodes it once. */
export class OutputBroadcast {
  readonly #beforeSeq: Buffer;

  constructor(processId: string) {
    this.#beforeSeq = outputPrefix(processId);
  }

  send(sinks: Iterable<EventSink>, seq: number, stream: StreamName, bytes: Buffer): void {
    const varying = afterSeqOf(seq, stream);
    let shared: SharedFrame | null = null;
    for (const sink of sinks) {
      if (sendAsBytes(sink, this.#beforeSeq, varying, bytes)) continue;
      shared ??= new SharedFrame(encodeChunk(this.#beforeSeq, varying, bytes));
      shared.sendTo(sink);
    }
    shared?.release();
  }
}

/** An encoded chunk that returns to the pool when no connection needs it any more. */
class SharedFrame {
  readonly #frame: EncodedChunk;
  /** The connections that need it, and the sender. */
  #users = 1;

  constructor(frame: EncodedChunk) {
    this.#frame = frame;
  }

  sendTo(sink: EventSink): void {
    this.#users++;
    sink.sendBulk(this.#frame.bytes, () => this.release());
  }

  release(): void {
    if (--this.#users === 0) this.#frame.released?.();
  }
}

function outputPrefix(processId: string): Buffer {
  return Buffer.from(`{"method":"process/output","params":{"processId":${JSON.stringify(processId)},"seq":`);
}

function afterSeqOf(seq: number, stream: StreamName): string {
  return `${seq},"stream":"${stream}","chunk":"`;
}

/** The `reason` member, which is absent without a reason. */
export function given(reason: LimitReason | null): { reason?: LimitReason } {
  return reason === null ? {} : { reason };
}

/** The `command` dialect has no closed event. Its `exited` is the last event, so it waits for the end of the output. */
function commandEvents(processId: string, sink: EventSink): ProcessListener {
  const id = JSON.stringify(processId);
  const beforeStream = Buffer.from(
    `{"method":"command/exec/outputDelta","params":{"processId":${id},"stream":"`,
  );
  let lastExitCode = 0;
  return {
    output: (_seq, stream, bytes) => {
      if (sink.attached) sendChunk(sink, beforeStream, `${legacyStream(stream)}","chunk":"`, bytes);
    },
    exited: (_seq, exitCode) => {
      lastExitCode = exitCode;
    },
    closed: () => send(sink, 'command/exec/exited', { processId, exitCode: lastExitCode }),
  };
}

function legacyStream(stream: StreamName): 'stdout' | 'stderr' {
  return stream === 'stderr' ? 'stderr' : 'stdout';
}

/** Sends an event as bulk data, so that it stays behind the output that precedes it. */
function send<N extends Notification>(sink: EventSink, method: N, params: NotificationParamsOf<N>): void {
  if (sink.attached) sink.sendBulk(Buffer.from(encodeNotification(method, params)));
}

const AFTER_CHUNK = Buffer.from('"}}');

function sendChunk(sink: EventSink, prefix: Buffer, varying: string, bytes: Buffer): void {
  if (sendAsBytes(sink, prefix, varying, bytes)) return;
  const frame = encodeChunk(prefix, varying, bytes);
  sink.sendBulk(frame.bytes, frame.released);
}

function sendAsBytes(sink: EventSink, prefix: Buffer, varying: string, bytes: Buffer): boolean {
  return sink.sendBulkBytes?.(() => `${prefix}${varying}${AFTER_CHUNK}`, 'chunk', bytes) ?? false;
}

interface EncodedChunk {
  readonly bytes: Uint8Array;
  /** Returns the buffer to its pool; undefined when it has none. */
  readonly released: (() => void) | undefined;
}

/**
 * Builds an output notification in one buffer: constant prefix, variable part, base64, constant suffix. Output is most of what a
 * server sends, and building it as text takes six times as long.
 */
function encodeChunk(prefix: Buffer, varying: string, bytes: Buffer): EncodedChunk {
  const length = prefix.length + varying.length + base64Length(bytes.length) + AFTER_CHUNK.length;
  const isPooled = length >= POOLED_FRAME_MIN_BYTES;
  const frame = isPooled ? FRAMES.take(length) : Buffer.allocUnsafe(length);
  writeChunk(frame, prefix, varying, bytes);
  return { bytes: frame.subarray(0, length), released: isPooled ? () => FRAMES.give(frame) : undefined };
}

function writeChunk(frame: Buffer, prefix: Buffer, varying: string, bytes: Buffer): void {
  prefix.copy(frame);
  const start = prefix.length + frame.write(varying, prefix.length, 'latin1');
  writeBase64(frame, start, bytes, AFTER_CHUNK);
}

const FRAMES = new FixedBufferPool(POOLED_FRAME_BYTES, FRAME_POOL_SIZE);
