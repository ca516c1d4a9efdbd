import { Connection } from '../wire/connection.mjs';
import { cpuSeconds, peakResidentBytes } from '../wire/proc.mjs';
import { CLIENT_BUSY, clientShare } from './client-share.mjs';
import { valueAtLeast } from './goals.mjs';
import { now, sleep } from './pace.mjs';
import { FLOOD, GB, MB } from './programs.mjs';

const COUNTS = [1, 8, 64];
const VIEWER_BYTES_PER_SECOND = MB;
const REFILL_MS = 50;
/** Until the sockets of slow viewers are full. */
const SETTLE_MS = 2_000;
const MEASURE_MS = 3_000;

/** @type {import('./index.mjs').Workload[]} */
export const viewers = [
  {
    name: 'viewers',
    title: 'output with viewers that take 1 MB/s each',
    against: 'nothing',
    rows: [
      { key: 'alone', label: 'rate without viewers', unit: 'MB/s', better: 'higher' },
      ...COUNTS.map((count) => ({
        key: `share${count}`,
        label: `of that with ${count}`,
        unit: /** @type {const} */ ('x'),
        better: /** @type {const} */ ('higher'),
        goal: valueAtLeast(0.8),
      })),
      { key: 'cpuAlone', label: 'server CPU without', unit: 's/GB', better: 'lower' },
      { key: 'cpu', label: 'server CPU with 64', unit: 's/GB', better: 'lower' },
      { key: 'taken', label: 'taken by each of 64', unit: 'MB/s', better: null },
      { key: 'peak', label: 'peak RSS', unit: 'MB', better: 'lower' },
      CLIENT_BUSY,
    ],
    async run({ url, pid, quick }) {
      const driver = await Connection.ready(url);
      const program = await driver.start('flood', FLOOD);
      const [{ ref }] = (await driver.call('process/list', {})).processes;
      const rate = async () => {
        await sleep(quick ? 50 : SETTLE_MS);
        const [before, began, cpuBefore] = [program.bytes, now(), cpuSeconds(pid)];
        await sleep(quick ? 100 : MEASURE_MS);
        const bytes = program.bytes - before;
        cpu = (cpuSeconds(pid) - cpuBefore) / (bytes / GB);
        return bytes / MB / ((now() - began) / 1000);
      };
      let cpu = 0;
      const alone = await rate();
      /** @type {SlowViewer[]} */
      const attached = [];
      /** @type {Record<string, number>} */
      const metrics = { alone, cpuAlone: cpu };
      const share = clientShare();
      for (const count of COUNTS) {
        while (attached.length < count) attached.push(await SlowViewer.open(url, ref));
        const [takenBefore, began] = [total(attached), now()];
        metrics[`share${count}`] = (await rate()) / alone;
        metrics.taken = (total(attached) - takenBefore) / MB / count / ((now() - began) / 1000);
      }
      metrics.cpu = cpu;
      metrics.client = share();
      metrics.peak = peakResidentBytes(pid) / MB;
      for (const viewer of attached) viewer.close();
      await driver.call('process/terminate', { processId: 'flood' });
      await program.finish({ exitCode: 137 });
      return metrics;
    },
  },
];

/** A viewer that reads at a limited rate, and fails when an event is neither sent nor reported as skipped. */
class SlowViewer {
  taken = 0;
  #allowed = 0;
  #next;
  #connection;
  #timer;

  /** @param {string} url @param {string} ref */
  static async open(url, ref) {
    const connection = await Connection.ready(url);
    const viewer = new SlowViewer(connection);
    connection.processes.set(ref, viewer);
    const { nextSeq } = await connection.call('process/attach', { ref });
    viewer.#next ??= nextSeq;
    return viewer;
  }

  /** @param {Connection} connection */
  constructor(connection) {
    this.#connection = connection;
    this.#timer = setInterval(() => {
      this.#allowed += (VIEWER_BYTES_PER_SECOND * REFILL_MS) / 1000;
      if (this.taken <= this.#allowed) connection.resume();
    }, REFILL_MS);
  }

  get wantsBytes() {
    return false;
  }

  /** @param {number} seq @param {number} byteCount */
  output(seq, byteCount) {
    this.#next ??= seq;
    if (seq !== this.#next) throw new Error(`a viewer got event ${seq} instead of ${this.#next}`);
    this.#next = seq + 1;
    this.taken += byteCount;
    if (this.taken > this.#allowed) this.#connection.pause();
  }

  /** @param {number} fromSeq @param {number} toSeq */
  skipped(fromSeq, toSeq) {
    if (fromSeq !== this.#next) throw new Error(`a viewer skipped ${fromSeq} instead of ${this.#next}`);
    this.#next = toSeq + 1;
  }

  exited() {}
  ended() {}
  fail() {}

  close() {
    clearInterval(this.#timer);
    this.#connection.close();
  }
}

/** @param {readonly SlowViewer[]} attached */
function total(attached) {
  return attached.reduce((sum, { taken }) => sum + taken, 0);
}
