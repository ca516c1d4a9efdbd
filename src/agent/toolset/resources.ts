import { decode } from '../output/model-text.ts';
import { type Call, requestOptions } from './call.ts';
import { ToolFailure } from './failure.ts';
import { filesOf, openPath, pathFailure, regularFile } from './files/open-file.ts';
import { MAX_RESOURCE_BYTES, REQUEST_TIMEOUT_MS } from './limits.ts';
import { collect } from './process/collect.ts';
import { START } from './process/cursor.ts';
import { findProcess, withAttached } from './process/open-process.ts';
import type { ResourceSubject } from './resource-uri.ts';
import { isBinary } from './text/budget.ts';
import { plainText } from './text/plain-text.ts';
import type { ResourceContent } from './types.ts';

/** Reads a resource. */
export function readSubject(call: Call, subject: ResourceSubject): Promise<ResourceContent> {
  return subject.type === 'output' ? readOutput(call, subject.ref) : readFile(call, subject.uri);
}

/** All output of a process that the server keeps, without escape sequences. */
async function readOutput(call: Call, ref: string): Promise<ResourceContent> {
  const info = await findProcess(call, ref);
  return withAttached(call, info, { afterSeq: 0 }, async (process) => {
    const options = { from: START, waitMs: REQUEST_TIMEOUT_MS, pageBytes: MAX_RESOURCE_BYTES };
    const { output, hasMore } = await collect(process, info, call, options);
    const truncated = hasMore || output.lostBytes !== 0;
    if (isBinary(output.head)) return { mimeType: BINARY, bytes: output.head, truncated };
    return { mimeType: TEXT, bytes: Buffer.from(plainText(decode(output.head))), truncated };
  });
}

async function readFile(call: Call, uri: string): Promise<ResourceContent> {
  const path = await openPath(call, uri);
  const { size } = await regularFile(call, path);
  const blocks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const block of filesOf(call).readFileStream(path.uri, {
      ...path.options,
      ...requestOptions(call),
    })) {
      blocks.push(block);
      length += block.length;
      if (length >= MAX_RESOURCE_BYTES) break;
    }
  } catch (error) {
    throw pathFailure(call, path, error);
  }
  const bytes = Buffer.concat(blocks).subarray(0, MAX_RESOURCE_BYTES);
  return { mimeType: isBinary(bytes) ? BINARY : TEXT, bytes, truncated: size > bytes.length };
}

const TEXT = 'text/plain';
const BINARY = 'application/octet-stream';

/** The error of a resource whose environment does not exist. */
export function unknownEnvironment(name: string, known: readonly string[]): ToolFailure {
  return new ToolFailure(
    `There is no environment ${JSON.stringify(name)}. The environments are ${known.join(', ')}.`,
    { kind: 'notFound' },
  );
}
