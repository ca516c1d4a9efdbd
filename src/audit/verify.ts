import { createReadStream } from 'node:fs';
import { type AuditLine, hashLine, parseLine } from './chain.ts';
import { AUDIT_LINE_MAX_BYTES, AUDIT_VERIFY_BLOCK_BYTES } from './limits.ts';

/** The result of a verification. */
type Verification =
  | {
      readonly ok: true;
      readonly lines: number;
      /** Hash of the last line. A copy kept elsewhere later proves whether the log was rewritten. */
      readonly head: string;
    }
  | { readonly ok: false; readonly file: string; readonly line: number; readonly problem: string };

/**
 * Verifies that the files, oldest first, form one unbroken chain. Streams them line by line, so their size does not matter. The first
 * file may begin in the middle of a chain, as a rotated file does.
 */
export async function verifyAuditLogs(files: readonly string[]): Promise<Verification> {
  const chain = new ChainCheck();
  for (const file of files) {
    let number = 0;
    for await (const { bytes, complete } of linesOf(file)) {
      number++;
      const problem = complete ? chain.next(bytes) : 'it is incomplete';
      if (problem !== null) return { ok: false, file, line: number, problem };
    }
    const problem = chain.endOfFile();
    if (problem !== null) return { ok: false, file, line: number, problem };
    if (number === 0) return { ok: false, file, line: 0, problem: 'the file is empty' };
  }
  return { ok: true, lines: chain.lines, head: chain.head };
}

/** Verifies a chain line by line. */
class ChainCheck {
  lines = 0;
  head = '';
  #nextSeq: number | null = null;
  /** An unparsable line is valid only when the next line marks it as incomplete (`torn`). */
  #unreadable = false;

  /** Verifies the next line. @returns the problem, or null. */
  next(bytes: Buffer): string | null {
    const line = parseLine(bytes);
    const problem = line === null ? this.#unreadableLine() : this.#link(line);
    if (problem !== null) return problem;
    if (line !== null) this.#nextSeq = line.seq + 1;
    this.#unreadable = line === null;
    this.lines++;
    this.head = hashLine(bytes);
    return null;
  }

  endOfFile(): string | null {
    return this.#unreadable ? 'it is not an audit record' : null;
  }

  #unreadableLine(): string | null {
    return this.#unreadable ? 'the previous line is not an audit record' : null;
  }

  #link({ seq, event, prev, torn }: AuditLine): string | null {
    if (this.#unreadable && torn !== true) return 'the previous line is not an audit record';
    if (this.lines === 0) {
      const begins = prev === null ? seq === 0 : event === 'continued';
      return begins ? null : 'the beginning of the log is missing';
    }
    if (prev !== this.head)
      return 'its hash does not match the previous line: that line was changed, or a line is missing';
    return this.#nextSeq === null || seq === this.#nextSeq
      ? null
      : `its sequence number is ${seq} instead of ${this.#nextSeq}`;
  }
}

/** Yields the lines of a file without their newlines. The last line is incomplete when its newline is missing. */
async function* linesOf(
  file: string,
): AsyncGenerator<{ readonly bytes: Buffer; readonly complete: boolean }> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const block of blocksOf(file)) {
    const bytes: Buffer = rest.length === 0 ? block : Buffer.concat([rest, block]);
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, from)) {
      yield { bytes: bytes.subarray(from, end), complete: true };
      from = end + 1;
    }
    rest = bytes.subarray(from);
    if (rest.length > 2 * AUDIT_LINE_MAX_BYTES) break;
  }
  if (rest.length > 0) yield { bytes: rest, complete: false };
}

/** Errors of the system name the file, which those of a read do not by themselves. */
async function* blocksOf(file: string): AsyncGenerator<Buffer> {
  try {
    yield* createReadStream(file, { highWaterMark: AUDIT_VERIFY_BLOCK_BYTES });
  } catch (error) {
    throw Object.assign(error as Error, { path: file });
  }
}

const NEWLINE = 10;
