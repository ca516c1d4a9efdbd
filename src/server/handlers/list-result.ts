import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import type { ProcessSummary } from '../../process/process-manager.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { EncodedResult } from '../../rpc/results.ts';
import { given } from '../sessions/process-events.ts';

type ListedProcess = ResultOf<'process/list'>['processes'][number];

/** The result of `process/list`: the first processes whose JSON fits, but at least one. */
export function listResult(processes: Iterable<ProcessSummary>, maxBytes: number): EncodedResult {
  const listed: string[] = [];
  let bytes = EMPTY_LIST_BYTES;
  let last = 0;
  for (const process of processes) {
    const json = JSON.stringify(wireProcess(process));
    bytes += Buffer.byteLength(json) + 1;
    if (bytes > maxBytes && listed.length > 0) {
      return new EncodedResult(`{"processes":[${listed.join(',')}],"next":${last}}`);
    }
    listed.push(json);
    last = process.position;
  }
  return new EncodedResult(`{"processes":[${listed.join(',')}]}`);
}

function wireProcess({ position, program, reason, ...summary }: ProcessSummary): ListedProcess {
  const { argv, argvTruncated, cwd, tty } = program;
  return {
    ...summary,
    ...given(reason),
    argv: [...argv],
    ...(argvTruncated && { argvTruncated }),
    cwd: uriFromPath(nativePathOfText(cwd)),
    tty,
  };
}

const EMPTY_LIST_BYTES = `{"processes":[],"next":${Number.MAX_SAFE_INTEGER}}`.length;
