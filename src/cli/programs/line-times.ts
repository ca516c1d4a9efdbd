/** Puts the time in front of each line of one stream. A line that arrives in parts has the time of its first part. */
export class LineTimes {
  #isInLine = false;

  /** Takes the next bytes and when they were written, in Unix time. */
  next(bytes: Uint8Array, timeMs: number): Uint8Array {
    const time = Buffer.from(`${timeText(timeMs)} `);
    const parts: Uint8Array[] = [];
    for (let from = 0; from < bytes.length; ) {
      const newline = bytes.indexOf(NEWLINE, from);
      const to = newline === -1 ? bytes.length : newline + 1;
      if (!this.#isInLine) parts.push(time);
      parts.push(bytes.subarray(from, to));
      this.#isInLine = newline === -1;
      from = to;
    }
    return Buffer.concat(parts);
  }
}

/** A time as in RFC 3339, in UTC. */
export function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

const NEWLINE = 0x0a;
