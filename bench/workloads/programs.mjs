// The programs that the workloads run: small ones that every Linux has.

export const MB = 1024 * 1024;
export const GB = 1024 * MB;

/** Exits immediately. */
export const TRUE = ['/bin/true'];

/** Runs until it is killed: longer than any measurement, but not forever. */
export const SLEEP = ['sleep', '600'];

/** `bytes` zeros as fast as a pipe takes them. */
export const zeros = (bytes) => ['head', '-c', String(bytes), '/dev/zero'];

/** The same once a line arrives on stdin, so that the start is not measured. */
export const zerosOnCommand = (bytes) => ['sh', '-c', `read go; exec head -c ${bytes} /dev/zero`];

/** Zeros without end. */
export const FLOOD = ['cat', '/dev/zero'];

/** Echoes every byte on a terminal immediately. */
export const RAW_CAT = ['sh', '-c', 'stty raw -echo; printf ready; exec cat'];

export const LINE_BYTES = 80;

/** Numbered lines of 80 bytes, each with its own write(2). */
export const unbufferedLines = (count) => [
  'awk',
  `BEGIN { for (i = 1; i <= ${count}; i++) { printf "%079d\\n", i; fflush() } }`,
];

/** What `seq 1 count` prints, in bytes. */
export function seqBytes(count) {
  let bytes = 0;
  for (let digits = 1, from = 1; from <= count; digits++, from *= 10) {
    bytes += (Math.min(count, from * 10 - 1) - from + 1) * (digits + 1);
  }
  return bytes;
}
