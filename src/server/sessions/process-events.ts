import type { ProcessListener } from '../../process/managed-process.ts';
import type { LimitReason } from '../../process/resources/resource-limits.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { Notification, NotificationParamsOf } from '../../protocol/registry.ts';
import { base64Length, writeBase64 } from '../../rpc/base64.ts';
import { FixedBufferPool } from '../../transport/buffer-pool.ts';
import { REUSED_FRAME_BYTES, REUSED_FRAME_MIN_BYTES, REUSED_FRAMES_MAX } from '../limits.ts';

/** Where events go: the connection that is attached now, or nowhere. */
export interface EventSink {
  /** False while nobody is attached: the log keeps the output, and nothing need be encoded. */
  readonly attached: boolean;
  /** `released` is called when the frame may be overwritten. */
  sendBulk(frame: Uint8Array, released?: () => void): void;
  /** Sends a copy of the bytes without encoding them, where the connection can; returns whether it can. */
  sendBulkBytes?(text: () => string, field: string, bytes: Uint8Array): boolean;
}

/** Which words a process reports in; fixed by the method that started it. */
export type Dialect = 'process' | 'command';

/** Turns what a process does into notifications of its dialect. */
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

/** A reason is told only where there is one. */
export function given(reason: LimitReason | null): { reason?: LimitReason } {
  return reason === null ? {} : { reason };
}

/** The first dialect has no closed event: its exited is the last word, so it waits for the output. */
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

/** Events keep their place behind the output that came before them, so they travel with it. */
function send<N extends Notification>(sink: EventSink, method: N, params: NotificationParamsOf<N>): void {
  if (sink.attached) sink.sendBulk(Buffer.from(encodeNotification(method, params)));
}

const AFTER_CHUNK = Buffer.from('"}}');

/**
 * An output notification in one buffer: constant prefix, what varies, base64, constant suffix. Output is most of what a server
 * sends; building it as text costs six times as much.
 */
function sendChunk(sink: EventSink, prefix: Buffer, varying: string, bytes: Buffer): void {
  if (sink.sendBulkBytes?.(() => `${prefix}${varying}${AFTER_CHUNK}`, 'chunk', bytes)) return;
  const length = prefix.length + varying.length + base64Length(bytes.length) + AFTER_CHUNK.length;
  if (length < REUSED_FRAME_MIN_BYTES) {
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

const FRAMES = new FixedBufferPool(REUSED_FRAME_BYTES, REUSED_FRAMES_MAX);
