import { ProcessError } from '../../process/errors.ts';
import type { ManagedProcess } from '../../process/managed-process.ts';
import type { StreamSnapshot } from '../../process/retained-stream.ts';
import { signalNames, signalNumber } from '../../process/signals.ts';
import type { StreamName } from '../../process/spawn/spawner.ts';
import type { WriteStatus } from '../../process/stdin-queue.ts';
import { invalidParams } from '../../protocol/errors.ts';
import type { Handlers, RequestContext } from '../../rpc/router.ts';
import {
  LIST_PAGE_BYTES,
  READ_PAGE_BYTES,
  SNAPSHOT_ENVELOPE_BYTES,
  SNAPSHOT_STREAM_BYTES,
} from '../limits.ts';
import type { PortsByRef } from '../sessions/port-scanner.ts';
import { given } from '../sessions/process-events.ts';
import { listResult } from './list-result.ts';
import { bytesParam } from './params.ts';
import { pageBudget, readResult } from './read-result.ts';
import type { HandlerServices } from './services.ts';
import { retainMsOf, startProcess } from './start-process.ts';
import { checkStart } from './start-request.ts';

type ProcessMethod = Exclude<
  Extract<keyof Handlers, `process/${string}`>,
  'process/attach' | 'process/detach' | 'process/screen'
>;

/** The `process/*` methods. */
export function processHandlers(services: HandlerServices): Pick<Handlers, ProcessMethod> {
  const { session, processes, portScanner, config, records } = services;
  return {
    'process/start': async (params, { trace, park }) => {
      const start = checkStart(params, config, trace);
      // A login shell may take long; other requests are served meanwhile.
      if (start.login !== null) park();
      const { sandboxType, ref, recordingId } = await startProcess(services, start);
      return {
        processId: start.processId,
        sandboxType,
        ...(session.sharing && { ref }),
        ...(start.record !== null && recordingId !== null && { recordingId }),
      };
    },

    'process/read': async (params, { signal, park, maxResultBytes }) => {
      const { processId, afterSeq, maxBytes, waitMs, withTimes } = params;
      const process = await processes.get(processId, 'read');
      const position = { afterSeq: afterSeq ?? 0, maxBytes: maxBytes ?? null, waitMs: waitMs ?? 0 };
      processes.requested(processId, position.afterSeq);
      return readResult(
        await process.read(
          { ...position, budget: pageBudget(Math.min(maxResultBytes(), READ_PAGE_BYTES), withTimes) },
          signal,
          park,
        ),
        params,
      );
    },

    'process/write': async (params, context) => {
      const { processId, writeId } = params;
      const bytes = bytesParam(params, 'chunk', context.bulk);
      if (writeId === undefined && config.requireWriteId) {
        throw invalidParams('params.writeId: missing, expected string');
      }
      const process = await processes.find(processId, 'write');
      if (process === undefined) return { status: 'unknownProcess' };
      return { status: await writeStdin(process, bytes, writeId ?? null, context) };
    },

    'process/signal': async ({ processId, signal }) => {
      const number = signalNumber(signal);
      if (number === null) throw new ProcessError('unknownSignal', unknownSignal());
      (await processes.find(processId, 'signal'))?.signal(number);
      return {};
    },

    'process/terminate': async ({ processId, mode }) => ({
      running: await processes.terminate(processId, mode ?? { type: 'force' }),
    }),

    'process/consumed': ({ processId, seq }) => {
      processes.consumed(processId, seq);
      return {};
    },

    'process/forget': async ({ processId }) => {
      await processes.forget(processId);
      return {};
    },

    'process/setLifetime': async ({ processId, lifetime }) => {
      records.requireWritable();
      await processes.makeDetached(processId, retainMsOf(lifetime, config));
      return {};
    },

    'process/closeStdin': async ({ processId }) => {
      const process = await processes.find(processId, 'write');
      if (process === undefined) return { status: 'unknownProcess' };
      return { status: process.closeStdin() ? 'closed' : 'alreadyClosed' };
    },

    'process/resize': async ({ processId, rows, cols }) => {
      (await processes.get(processId, 'write')).resize(rows, cols);
      return {};
    },

    'process/wait': async ({ processId, until, timeoutMs }, { signal, park }) => {
      const process = await processes.get(processId, 'read');
      processes.requested(processId, Number.POSITIVE_INFINITY);
      park();
      const reached = await process.wait(until, timeoutMs ?? null, signal);
      const { exitCode, closed, reason } = process;
      return { running: !reached, exited: exitCode !== null, exitCode, closed, ...given(reason) };
    },

    'process/snapshot': async ({ processId }, { maxResultBytes }) => {
      const process = await processes.get(processId, 'read');
      const share = Math.floor((maxResultBytes() - SNAPSHOT_ENVELOPE_BYTES) / 3 / 4) * 3;
      const snapshot = (stream: StreamName) =>
        process.snapshot(stream, Math.max(0, Math.min(share, SNAPSHOT_STREAM_BYTES)));
      const [stdout, stderr, terminal] = [snapshot('stdout'), snapshot('stderr'), snapshot('pty')];
      const perStream = (count: (ends: StreamSnapshot) => number) => ({
        stdout: count(stdout),
        stderr: count(stderr),
        terminal: count(terminal),
      });
      return {
        stdout: joined(stdout),
        stderr: joined(stderr),
        terminal: joined(terminal),
        truncated: [stdout, stderr, terminal].some((ends) => ends.omittedBytes > 0),
        omittedBytes: perStream((ends) => ends.omittedBytes),
        headBytes: perStream((ends) => ends.head.length),
        exitCode: process.exitCode,
        running: process.exitCode === null,
        closed: process.closed,
        nextSeq: process.nextSeq,
        ...given(process.reason),
      };
    },

    'process/list': ({ after, scope = 'session', ports = false }, { maxResultBytes }) => {
      const result = (found: PortsByRef | null) =>
        listResult(processes, scope, after ?? 0, Math.min(maxResultBytes(), LIST_PAGE_BYTES), found);
      return ports ? portScanner.scan().then(result) : result(null);
    },
  };
}

/**
 * Writes to a program's stdin. The response is delayed for a client that writes faster than the program reads. After the client has
 * ended its input, the response is immediate: the bytes are queued, and no further writes can follow.
 */
export function writeStdin(
  process: ManagedProcess,
  bytes: Uint8Array,
  writeId: string | null,
  { park, signal }: Pick<RequestContext, 'park' | 'signal'>,
): Promise<WriteStatus> | WriteStatus {
  const status = process.write(bytes, writeId, park);
  if (typeof status === 'string') return status;
  if (signal.aborted) return 'accepted';
  return new Promise((resolve) => {
    const accept = () => resolve('accepted');
    signal.addEventListener('abort', accept, { once: true });
    void status.then((written) => {
      signal.removeEventListener('abort', accept);
      resolve(written);
    });
  });
}

function joined(ends: StreamSnapshot): string {
  return Buffer.concat([ends.head, ends.tail]).toString('base64');
}

function unknownSignal(): string {
  return `params.signal: expected "interrupt" or one of ${signalNames().join(', ')}`;
}
