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

/** Turns the events of a process into notifications of its dialect. */
export function processNotifier(processId: string, dialect: Dialect, sink: EventSink): ProcessListener {
  return dialect === 'process' ? processEvents(processId, sink) : commandEvents(processId, sink);
}

function processEvents(processId: string, sink: EventSink): ProcessListener {
  const id = JSON.stringify(processId);
  const beforeSeq = Buffer.from(`{"method":"process/output","params":{"processId":${id},"seq":`);
  return {
    output: (seq, stream, bytes) => {
      if (sink.attached) sendChunk(sink, beforeSeq, `${seq},"stream":"${stream}","chunk":"`, bytes);
    },
    exited: (seq, exitCode, reason, sandboxDenied) =>
      send(sink, 'process/exited', { processId, seq, exitCode, sandboxDenied, ...given(reason) }),
    closed: (seq, reason) => send(sink, 'process/closed', { processId, seq, ...given(reason) }),
  };
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

/**
 * Builds an output notification in one buffer: constant prefix, variable part, base64, constant suffix. Output is most of what a
 * server sends, and building it as text takes six times as long.
 */
function sendChunk(sink: EventSink, prefix: Buffer, varying: string, bytes: Buffer): void {
  if (sink.sendBulkBytes?.(() => `${prefix}${varying}${AFTER_CHUNK}`, 'chunk', bytes)) return;
  const length = prefix.length + varying.length + base64Length(bytes.length) + AFTER_CHUNK.length;
  if (length < POOLED_FRAME_MIN_BYTES) {
    const frame = Buffer.allocUnsafe(length);
    writeChunk(frame, prefix, varying, bytes);
    sink.sendBulk(frame);
  } else {
    const frame = FRAMES.take(length);
    writeChunk(frame, prefix, varying, bytes);
    sink.sendBulk(frame.subarray(0, length), () => FRAMES.give(frame));
  }
}

function writeChunk(frame: Buffer, prefix: Buffer, varying: string, bytes: Buffer): void {
  prefix.copy(frame);
  const start = prefix.length + frame.write(varying, prefix.length, 'latin1');
  writeBase64(frame, start, bytes, AFTER_CHUNK);
}

const FRAMES = new FixedBufferPool(POOLED_FRAME_BYTES, FRAME_POOL_SIZE);
