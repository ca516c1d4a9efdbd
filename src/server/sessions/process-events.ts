import type { ProcessListener } from '../../process/managed-process.ts';
import type { LimitReason } from '../../process/resources/resource-limits.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { Notification, NotificationParamsOf } from '../../protocol/registry.ts';
import { broadcastChunk, type ChunkSink, sendChunk } from './chunk-frames.ts';

/** Receives events: the attached connection, if there is one. */
export interface EventSink extends ChunkSink {
  /** False while the session is detached: the output log keeps the output, and nothing needs to be encoded. */
  readonly attached: boolean;
}

/** The method family whose notifications a process sends; the method that started it determines this. */
export type Dialect = 'process' | 'command';

/** Sends the events of a process. */
export interface ProcessNotifier extends ProcessListener {
  /** Without a time the notification has none. */
  output(seq: number, stream: StreamName, bytes: Buffer, timeMs?: number): void;
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

function processEvents(processId: string, sink: EventSink): Omit<ProcessNotifier, 'skipped'> {
  const beforeSeq = outputPrefix(processId);
  return {
    output: (seq, stream, bytes, timeMs) => {
      if (sink.attached) sendChunk(sink, beforeSeq, afterSeqOf(seq, stream, timeMs), bytes);
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

  /** Without a time the notifications have none. */
  send(sinks: Iterable<EventSink>, seq: number, stream: StreamName, bytes: Buffer, timeMs?: number): void {
    broadcastChunk(sinks, this.#beforeSeq, afterSeqOf(seq, stream, timeMs), bytes);
  }
}

function outputPrefix(processId: string): Buffer {
  return Buffer.from(`{"method":"process/output","params":{"processId":${JSON.stringify(processId)},"seq":`);
}

function afterSeqOf(seq: number, stream: StreamName, timeMs: number | undefined): string {
  if (timeMs !== undefined) return `${seq},"stream":"${stream}","timeMs":${timeMs},"chunk":"`;
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
      // Empty output stands for a skipped sequence number, which this dialect does not have.
      if (sink.attached && bytes.length > 0)
        sendChunk(sink, beforeStream, `${legacyStream(stream)}","chunk":"`, bytes);
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
