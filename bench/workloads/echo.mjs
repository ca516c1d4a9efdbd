import { Connection } from '../wire/connection.mjs';
import { ratioAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, sleep, timed } from './pace.mjs';
import { FLOOD, MB, RAW_CAT } from './programs.mjs';

/** Between two key presses. */
const PAUSE_MS = 3;

/** What the program prints once its terminal is set up. */
const READY_BYTES = 'ready'.length;

/** @type {import('./index.mjs').Workload[]} */
export const echo = [
  {
    name: 'echo-idle',
    title: 'terminal echo, nothing else running',
    rows: latencyRows('ms', { label: 'echo', p50: ratioAtMost(0.02) }),
    async run({ url, quick }) {
      const terminal = await EchoTerminal.open(await Connection.ready(url));
      const samples = await terminal.measure(quick);
      return latency(samples, 'ms');
    },
  },
  {
    name: 'echo-flood',
    title: 'terminal echo while another process floods',
    rows: [
      ...latencyRows('ms', { label: 'echo', p50: ratioAtMost(0.3), p99: ratioAtMost(0.6) }),
      { key: 'flood', label: 'flood meanwhile', unit: 'MB/s', better: 'higher' },
    ],
    async run({ url, quick }) {
      const connection = await Connection.ready(url);
      const terminal = await EchoTerminal.open(connection);
      const flood = await connection.start('flood', FLOOD);
      while (flood.bytes < 8 * MB) await sleep(5);
      const [bytes, began] = [flood.bytes, now()];
      const samples = await terminal.measure(quick);
      const rate = (flood.bytes - bytes) / MB / ((now() - began) / 1000);
      await connection.call('process/terminate', { processId: 'flood' });
      await flood.finish({ exitCode: 137 });
      return { ...latency(samples, 'ms'), flood: rate };
    },
  },
];

/** A program on a terminal that echoes every byte. */
export class EchoTerminal {
  #connection;
  #tracked;
  #presses = 0;

  static async open(connection) {
    const terminal = new EchoTerminal();
    terminal.#connection = connection;
    terminal.#tracked = await connection.start('echo', RAW_CAT, { tty: true });
    while (terminal.#tracked.bytes < READY_BYTES) await sleep(2);
    return terminal;
  }

  /** Milliseconds from each key press to its echo. */
  measure(quick, { max = 400, seconds = 6 } = {}) {
    return timed(() => this.#press(), {
      warmUp: quick ? 1 : 20,
      min: quick ? 5 : 50,
      max: quick ? 5 : max,
      seconds,
    });
  }

  async #press() {
    const writeId = String(++this.#presses);
    const echoed = new Promise((resolve) => {
      this.#tracked.onOutput = resolve;
    });
    const began = now();
    const accepted = this.#connection.call('process/write', { processId: 'echo', chunk: 'eA==', writeId });
    await echoed;
    const took = now() - began;
    const { status } = await accepted;
    if (status !== 'accepted') throw new Error(`a key press was ${status}`);
    if (this.#tracked.bytes !== READY_BYTES + this.#presses) throw new Error('echoed bytes do not add up');
    await sleep(PAUSE_MS);
    return took;
  }
}
