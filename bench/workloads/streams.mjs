import { Connection } from '../wire/connection.mjs';
import { cpuSeconds, peakResidentBytes } from '../wire/proc.mjs';
import { CLIENT_BUSY, clientShare } from './client-share.mjs';
import { ratioAtLeast, ratioAtMost } from './goals.mjs';
import { now } from './pace.mjs';
import { GB, LINE_BYTES, MB, seqBytes, unbufferedLines, zeros } from './programs.mjs';
import { startToClosed } from './starts.mjs';

/** @type {import('./index.mjs').Row} */
const rate = { key: 'rate', label: 'rate', unit: 'MB/s', better: 'higher' };
/** @type {import('./index.mjs').Row} */
const cpu = { key: 'cpu', label: 'server CPU', unit: 's/GB', better: 'lower' };
/** @type {import('./index.mjs').Row} */
const peak = { key: 'peak', label: 'peak RSS', unit: 'MB', better: 'lower' };
/** @type {import('./index.mjs').Row} */
const frame = { key: 'frame', label: 'output per frame', unit: 'KB', better: null };

/** @type {import('./index.mjs').Workload[]} */
export const streams = [
  {
    name: 'pipe-512mb',
    title: '512 MB through a pipe',
    rows: [
      { ...rate, goal: ratioAtLeast(1.8) },
      { ...cpu, goal: ratioAtMost(0.5) },
      { ...peak, goal: ratioAtMost(0.75) },
      frame,
      CLIENT_BUSY,
    ],
    run({ quick, ...context }) {
      const bytes = (quick ? 4 : 512) * MB;
      return stream(context, [{ argv: zeros(bytes), bytes }]);
    },
  },
  {
    name: 'seq-2m',
    title: 'seq 1 2000000',
    rows: [{ ...rate, goal: ratioAtLeast(2) }, cpu],
    run({ quick, ...context }) {
      const count = quick ? 100_000 : 2_000_000;
      return stream(context, [{ argv: ['seq', '1', String(count)], bytes: seqBytes(count) }]);
    },
  },
  {
    name: 'lines-200k',
    title: '200,000 unbuffered lines',
    rows: [{ ...rate, goal: ratioAtLeast(1.5) }, cpu, frame],
    run({ quick, ...context }) {
      const count = quick ? 10_000 : 200_000;
      return stream(context, [{ argv: unbufferedLines(count), bytes: count * LINE_BYTES }]);
    },
  },
  {
    name: 'pipes-16x32mb',
    title: '16 x 32 MB through pipes concurrently',
    rows: [{ ...rate, goal: ratioAtLeast(2) }, cpu, peak],
    run({ quick, ...context }) {
      const bytes = (quick ? 1 : 32) * MB;
      return stream(
        context,
        Array.from({ length: 16 }, () => ({ argv: zeros(bytes), bytes })),
      );
    },
  },
  {
    name: 'tty-128mb',
    title: '128 MB through a terminal',
    rows: [{ ...rate, goal: ratioAtLeast(1) }, { ...cpu, goal: ratioAtMost(0.8) }, frame],
    run({ quick, ...context }) {
      const bytes = (quick ? 1 : 128) * MB;
      return stream(context, [{ argv: zeros(bytes), bytes, tty: true }]);
    },
  },
];

/** Starts all programs together and receives their output to the last byte. The first start of a server has its own row. */
async function stream({ url, pid }, programs) {
  const connection = await Connection.ready(url);
  await startToClosed(connection, 'first');
  const cpuBefore = cpuSeconds(pid);
  const framesBefore = connection.frames;
  const share = clientShare();
  const began = now();
  await Promise.all(
    programs.map(async ({ argv, bytes, tty }, i) => {
      const tracked = await connection.start(`p${i}`, argv, { tty });
      await tracked.finish({ bytes });
    }),
  );
  const seconds = (now() - began) / 1000;
  const bytes = programs.reduce((sum, program) => sum + program.bytes, 0);
  return {
    rate: bytes / MB / seconds,
    cpu: (cpuSeconds(pid) - cpuBefore) / (bytes / GB),
    peak: peakResidentBytes(pid) / MB,
    client: share(),
    frame: bytes / 1024 / (connection.frames - framesBefore),
  };
}
