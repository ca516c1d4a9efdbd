import { Connection } from '../wire/connection.mjs';
import { valueAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, sleep } from './pace.mjs';

const SIZE = { rows: 50, cols: 200 };
const FRAMES = 130;
/** What a frame takes: a clear, and 50 lines of a position, a colour and 192 characters each. */
const FRAME_BYTES = '\x1b[H\x1b[2J'.length + SIZE.rows * ('\x1b[00;01H\x1b[30m'.length + 192);

/** Draws full screens by position, more of them than is retained, and waits. */
const FRAMES_PROGRAM = [
  'awk',
  `BEGIN {
    text = "0123456789abcdef"; while (length(text) < 192) text = text text; text = substr(text, 1, 192)
    for (frame = 0; frame < ${FRAMES}; frame++) {
      printf "\\033[H\\033[2J"
      for (row = 1; row <= ${SIZE.rows}; row++) printf "\\033[%02d;01H\\033[3%dm%s", row, frame % 8, text
    }
    fflush(); getline
  }`,
];

/** @type {import('./index.mjs').Workload[]} */
export const screen = [
  {
    name: 'screen',
    title: 'the screen of a full-screen program on 200x50, behind more output than is retained',
    against: 'nothing',
    rows: [
      { key: 'first', label: 'first screen of the server', unit: 'ms', better: 'lower' },
      ...latencyRows('ms', { label: 'first of a process', p50: valueAtMost(50) }),
      { key: 'again', label: 'again, nothing new', unit: 'ms', better: 'lower' },
    ],
    async run({ url, quick }) {
      const connection = await Connection.ready(url);
      const first = await measureProcess(connection, 'p0');
      const samples = [];
      const again = [];
      for (let i = 1; i <= (quick ? 2 : 20); i++) {
        const took = await measureProcess(connection, `p${i}`);
        samples.push(took.first);
        again.push(took.again);
      }
      return { first: first.first, ...latency(samples, 'ms'), again: latency(again, 'ms').p50 };
    },
  },
];

async function measureProcess(connection, processId) {
  const tracked = await connection.start(processId, FRAMES_PROGRAM, { tty: true, size: SIZE });
  while (tracked.bytes < FRAMES * FRAME_BYTES) await sleep(2);
  const took = async () => {
    const began = now();
    const { text, exact, cols } = await connection.call('process/screen', { processId });
    const milliseconds = now() - began;
    const lines = text.split('\n');
    const isRight = lines.length === SIZE.rows && lines.every((line) => line.length === 192);
    if (!isRight || !exact || cols !== SIZE.cols) throw new Error('the server returned a wrong screen');
    return milliseconds;
  };
  const result = { first: await took(), again: await took() };
  await connection.call('process/terminate', { processId });
  await tracked.finish({ exitCode: 137 });
  return result;
}
