import type { PageBudget, RetainedChunk } from '../../process/output-log.ts';
import type { ReadPage } from '../../process/read-page.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { base64Length } from '../../rpc/base64.ts';
import { READ_ENVELOPE_BYTES } from '../limits.ts';
import { given } from '../sessions/process-events.ts';

type ReadResult = ResultOf<'process/read'>;

/** What a client asks for besides the output. */
interface Additions {
  readonly withPosition?: boolean | undefined;
  readonly withTimes?: boolean | undefined;
}

/** The result of `process/read` for a page of output. */
export function readResult(page: ReadPage, { withPosition, withTimes }: Additions): ReadResult {
  return {
    chunks: page.chunks.map(withTimes ? timedChunk : wireChunk),
    nextSeq: page.nextSeq,
    exited: page.exitCode !== null,
    exitCode: page.exitCode,
    closed: page.closed,
    failure: null,
    sandboxDenied: page.denied,
    ...given(page.reason),
    ...(withPosition && { position: page.position }),
  };
}

/** How much output fits into a result with this many bytes of JSON. */
export function pageBudget(maxResultBytes: number, withTimes = false): PageBudget {
  const emptyBytes = withTimes ? EMPTY_TIMED_CHUNK_BYTES : EMPTY_CHUNK_BYTES;
  return {
    size: maxResultBytes - EMPTY_PAGE_BYTES,
    sizeOf: (chunkBytes) => base64Length(chunkBytes) + emptyBytes,
  };
}

/** The largest chunk that fits into a response of this size. */
export function readableChunkBytes(maxResponseBytes: number): number {
  const characters = maxResponseBytes - READ_ENVELOPE_BYTES - EMPTY_PAGE_BYTES - EMPTY_TIMED_CHUNK_BYTES;
  return Math.floor(characters / 4) * 3;
}

function wireChunk({ seq, stream, bytes }: RetainedChunk): ReadResult['chunks'][number] {
  return { seq, stream, chunk: bytes.toString('base64') };
}

function timedChunk(chunk: RetainedChunk): ReadResult['chunks'][number] {
  return { ...wireChunk(chunk), timeMs: chunk.timeMs };
}

/** The longest value of each member. */
const WIDEST_SEQ = Number.MAX_SAFE_INTEGER;
const EMPTY_PAGE: ReadPage = {
  chunks: [],
  nextSeq: WIDEST_SEQ,
  exitCode: -(2 ** 31),
  closed: false,
  reason: 'outputLimit',
  denied: false,
  position: {
    streamBytes: { stdout: WIDEST_SEQ, stderr: WIDEST_SEQ, pty: WIDEST_SEQ },
    exitSeq: WIDEST_SEQ,
  },
};
const EMPTY_CHUNK: RetainedChunk = {
  seq: WIDEST_SEQ,
  stream: 'stdout',
  bytes: Buffer.alloc(0),
  timeMs: WIDEST_SEQ,
};
const EMPTY_PAGE_BYTES = JSON.stringify(readResult(EMPTY_PAGE, { withPosition: true })).length;
/** Including the comma after it. */
const EMPTY_CHUNK_BYTES = JSON.stringify(wireChunk(EMPTY_CHUNK)).length + 1;
const EMPTY_TIMED_CHUNK_BYTES = JSON.stringify(timedChunk(EMPTY_CHUNK)).length + 1;
