import type { ReadPage } from '../../process/managed-process.ts';
import type { PageBudget, RetainedChunk } from '../../process/output-log.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { base64Length } from '../../rpc/base64.ts';
import { READ_ENVELOPE_BYTES } from '../limits.ts';
import { given } from '../sessions/process-events.ts';

type ReadResult = ResultOf<'process/read'>;

/** A page in the words of `process/read`. */
export function readResult(page: ReadPage): ReadResult {
  return {
    chunks: page.chunks.map(wireChunk),
    nextSeq: page.nextSeq,
    exited: page.exitCode !== null,
    exitCode: page.exitCode,
    closed: page.closed,
    failure: null,
    sandboxDenied: page.denied,
    ...given(page.reason),
  };
}

/** What a page may hold whose result may be so long in JSON. */
export function pageBudget(maxResultBytes: number): PageBudget {
  return {
    size: maxResultBytes - EMPTY_PAGE_BYTES,
    sizeOf: (chunkBytes) => base64Length(chunkBytes) + EMPTY_CHUNK_BYTES,
  };
}

/** The largest chunk that can be read where answers have at most so many bytes. */
export function readableChunkBytes(maxResponseBytes: number): number {
  const characters = maxResponseBytes - READ_ENVELOPE_BYTES - EMPTY_PAGE_BYTES - EMPTY_CHUNK_BYTES;
  return Math.floor(characters / 4) * 3;
}

function wireChunk({ seq, stream, bytes }: RetainedChunk): ReadResult['chunks'][number] {
  return { seq, stream, chunk: bytes.toString('base64') };
}

/** What is longest in each place. */
const WIDEST_SEQ = Number.MAX_SAFE_INTEGER;
const EMPTY_PAGE: ReadPage = {
  chunks: [],
  nextSeq: WIDEST_SEQ,
  exitCode: -(2 ** 31),
  closed: false,
  reason: 'outputLimit',
  denied: false,
};
const EMPTY_CHUNK: RetainedChunk = { seq: WIDEST_SEQ, stream: 'stdout', bytes: Buffer.alloc(0) };
const EMPTY_PAGE_BYTES = JSON.stringify(readResult(EMPTY_PAGE)).length;
/** With the comma behind it. */
const EMPTY_CHUNK_BYTES = JSON.stringify(wireChunk(EMPTY_CHUNK)).length + 1;
