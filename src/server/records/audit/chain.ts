import { createHash } from 'node:crypto';

/** One line of an audit log as it is read back. */
export interface AuditLine {
  /** Position in the chain, from 0 on, without gaps. */
  readonly seq: number;
  readonly event: string;
  /** SHA-256 of the line before, without its line end; null on the first line of a chain. */
  readonly prev: string | null;
  /** On the first line of a server's run: whether the line before was left incomplete. */
  readonly torn?: boolean;
}

/** The end of a chain: what the next line needs to know. */
export interface ChainEnd {
  readonly nextSeq: number;
  /** Null where no line has been written. */
  readonly hash: string | null;
}

export const NEW_CHAIN: ChainEnd = { nextSeq: 0, hash: null };

/** What a line is a fingerprint of: its bytes without the line end. */
export function hashLine(line: Uint8Array): string {
  return createHash('sha256').update(line).digest('hex');
}

/** Reads a line back; null when it is none. */
export function parseLine(line: Buffer): AuditLine | null {
  try {
    const { seq, event, prev, torn } = JSON.parse(line.toString('utf8'));
    const valid = Number.isSafeInteger(seq) && typeof event === 'string' && (prev === null || isHash(prev));
    return valid ? { seq, event, prev, torn: torn === true } : null;
  } catch {
    return null;
  }
}

function isHash(value: unknown): boolean {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
}
