import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import type { ProcessSummary } from '../../process/process-summary.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import type { Recording } from '../../recording/recording.ts';
import { EncodedResult } from '../../rpc/results.ts';
import { MAX_REPORTED_PORTS } from '../limits.ts';
import type { ConnectionProcesses } from '../sessions/connection-processes.ts';
import type { PortsByRef } from '../sessions/port-scanner.ts';
import { given } from '../sessions/process-events.ts';
import type { SharedProcess } from '../sessions/shared-process.ts';

type ListedProcess = ResultOf<'process/list'>['processes'][number];

/**
 * The result of `process/list`: the first processes of a scope after a position whose JSON fits, but at least one. `ports` is null
 * unless they were requested.
 */
export function listResult(
  processes: Pick<ConnectionProcesses, 'list' | 'idOf'>,
  scope: 'session' | 'owner' | 'server',
  after: number,
  maxBytes: number,
  ports: PortsByRef | null,
): EncodedResult {
  const listed: string[] = [];
  let bytes = EMPTY_LIST_BYTES;
  let last = 0;
  for (const process of processes.list(scope)) {
    const { summary } = process;
    if (summary === undefined || process.position <= after) continue;
    const json = JSON.stringify({
      ...wireProcess(processes.idOf(process), process, summary),
      ...(ports !== null && { ports: portNumbers(ports.get(process.ref) ?? []) }),
    });
    bytes += Buffer.byteLength(json) + 1;
    if (bytes > maxBytes && listed.length > 0) {
      return new EncodedResult(`{"processes":[${listed.join(',')}],"next":${last}}`);
    }
    listed.push(json);
    last = process.position;
  }
  return new EncodedResult(`{"processes":[${listed.join(',')}]}`);
}

function portNumbers(ports: readonly { readonly port: number }[]): number[] {
  return [...new Set(ports.slice(0, MAX_REPORTED_PORTS).map(({ port }) => port))];
}

function wireProcess(
  processId: string,
  { ref, name, owner, lifetime, endedAtMs, attachedClients, recording, sandbox }: SharedProcess,
  { program, reason, size, ...summary }: ProcessSummary,
): ListedProcess {
  const { argv, argvTruncated, cwd, tty } = program;
  return {
    ...summary,
    processId,
    ref,
    ...(name !== null && { name }),
    owner,
    lifetime,
    ...given(reason),
    argv: [...argv],
    ...(argvTruncated && { argvTruncated }),
    cwd: uriFromPath(nativePathOfText(cwd)),
    tty,
    ...(size !== null && { size }),
    ...(endedAtMs !== null && { endedAtMs }),
    attached: attachedClients,
    ...(sandbox !== null && { sandbox }),
    ...(recording !== null && { recording: wireState(recording) }),
  };
}

function wireState({ recordingId, state, bytes }: Recording): ListedProcess['recording'] {
  return { recordingId, state, bytes };
}

const EMPTY_LIST_BYTES = `{"processes":[],"next":${Number.MAX_SAFE_INTEGER}}`.length;
