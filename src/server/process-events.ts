import type { ProcessListener } from '../process/managed-process.ts';
import type { StreamName } from '../process/spawn/spawner.ts';
import { encodeNotification } from '../protocol/envelope.ts';
import type { Notification, NotificationParamsOf } from '../protocol/registry.ts';

/** Where events go: the connection that is attached now, or nowhere. */
export interface EventSink {
  /** False while nobody is attached: the log keeps the output, and nothing need be encoded. */
  readonly attached: boolean;
  sendBulk(frame: Uint8Array): void;
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
      if (sink.attached) sink.sendBulk(chunkFrame(beforeSeq, `${seq},"stream":"${stream}","chunk":"`, bytes));
    },
    exited: (seq, exitCode) =>
      send(sink, 'process/exited', { processId, seq, exitCode, sandboxDenied: false }),
    closed: (seq) => send(sink, 'process/closed', { processId, seq }),
  };
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
      if (sink.attached) sink.sendBulk(chunkFrame(beforeStream, `${legacyStream(stream)}","chunk":"`, bytes));
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
function chunkFrame(prefix: Buffer, varying: string, bytes: Buffer): Buffer {
  const base64Length = Math.ceil(bytes.length / 3) * 4;
  const frame = Buffer.allocUnsafe(prefix.length + varying.length + base64Length + AFTER_CHUNK.length);
  let at = prefix.copy(frame);
  at += frame.write(varying, at, 'latin1');
  at += frame.write(bytes.toString('base64'), at, 'latin1');
  AFTER_CHUNK.copy(frame, at);
  return frame;
}
