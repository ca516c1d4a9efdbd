import { Connection } from '../wire/connection.mjs';
import { residentBytes, writtenBytes } from '../wire/proc.mjs';
import { ratioAtMost, valueAtLeast } from './goals.mjs';
import { now, sleep } from './pace.mjs';
import { MB } from './programs.mjs';

const SAMPLE_MS = 100;
const OTHERS_MAX_MS = 1_000;

/** @type {import('./index.mjs').Workload[]} */
export const stall = [
  {
    name: 'stalled-client',
    title: 'client stalled for 5 s',
    rows: [
      { key: 'growth', label: 'server RSS growth', unit: 'MB', better: 'lower', goal: ratioAtMost(1) },
      { key: 'written', label: 'written by the program', unit: 'MB', better: 'lower' },
      { key: 'blocked', label: 'program blocked', unit: 'yes/no', better: null, goal: valueAtLeast(1) },
    ],
    async run({ url, pid, quick }) {
      const bytes = (quick ? 32 : 256) * MB;
      const stallMs = quick ? 400 : 5_000;
      const other = await Connection.ready(url);
      const stalled = await Connection.ready(url);
      const program = await startPrinting(stalled, bytes);
      await sleep(quick ? 100 : 1_000);
      const before = residentBytes(pid);

      await stalled.call('process/write', { processId: 'printer', chunk: GO, writeId: '1' });
      stalled.pause();
      const watched = await watch(pid, program.pid, stallMs, other);
      stalled.resume();
      // The output that was held back must still arrive.
      await program.tracked.finish({ bytes: bytes + program.headerBytes });
      return {
        growth: (watched.peakBytes - before) / MB,
        written: watched.written / MB,
        blocked: watched.blocked ? 1 : 0,
      };
    },
  },
];

const GO = Buffer.from('go\n').toString('base64');

/** A program that prints its pid and waits for a line before it prints more. */
async function startPrinting(connection, bytes) {
  const script = `echo $$; read go; exec head -c ${bytes} /dev/zero`;
  const tracked = await connection.start('printer', ['sh', '-c', script], { pipeStdin: true });
  const text = await new Promise((resolve) => {
    tracked.onBytes = resolve;
    // The line may have arrived before the listener was added.
    if (tracked.bytes > 0) {
      const read = connection.call('process/read', { processId: 'printer' });
      resolve(read.then(({ chunks }) => Buffer.from(chunks[0].chunk, 'base64')));
    }
  });
  tracked.onBytes = null;
  return { tracked, pid: Number(text.toString()), headerBytes: text.length };
}

/** Watches server and program while the client does not read. The program is blocked if it wrote nothing in the second half. */
async function watch(serverPid, programPid, stallMs, other) {
  const began = now();
  const start = writtenBytes(programPid);
  let peakBytes = 0;
  let writtenAtHalf = null;
  while (now() - began < stallMs) {
    await sleep(SAMPLE_MS);
    peakBytes = Math.max(peakBytes, residentBytes(serverPid));
    const asked = now();
    await other.call('environment/status');
    if (now() - asked > OTHERS_MAX_MS) throw new Error('other connections suffer from the stalled one');
    if (writtenAtHalf === null && now() - began > stallMs / 2) writtenAtHalf = writtenBytes(programPid);
  }
  const written = writtenBytes(programPid);
  return { peakBytes, written: written - start, blocked: written === writtenAtHalf };
}
