import { createHash } from 'node:crypto';

/** A parsed line of an audit log. */
export interface AuditLine {
  /** Position in the chain, from 0, without gaps. */
  readonly seq: number;
  readonly event: string;
  /** SHA-256 of the previous line without its newline; null on the first line of a chain. */
  readonly prev: string | null;
  /** On the first line of a server run: whether the previous line is incomplete. */
  readonly torn?: boolean;
}

/** The end of a chain, from which the next line continues. */
export interface ChainEnd {
  readonly nextSeq: number;
  /** Hash of the last line; null for an empty chain. */
  readonly hash: string | null;
}

export const NEW_CHAIN: ChainEnd = { nextSeq: 0, hash: null };

/** Hashes the bytes of a line without its newline. */
export function hashLine(line: Uint8Array): string {
  return createHash('sha256').update(line).digest('hex');
}

/** Parses a line. @returns null when it is not an audit record. */
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
