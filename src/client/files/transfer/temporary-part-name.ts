import { randomHex } from '../../../base/random-hex.ts';

/** A new name for a temporary file on a server. A later replacement in the same directory removes one that was left there for 7 days. */
export function temporaryPartName(): string {
  return `.exec-server-${randomHex()}.part`;
}
