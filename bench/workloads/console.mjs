// The web console in a headless Chromium. Times are taken in the page, when a frame is painted.
import { chromiumMissing, startTerminal, withConsole } from '../harness/console-fixture.mjs';
import { percentile } from '../harness/statistics.mjs';
import { valueAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { concurrently, now } from './pace.mjs';
import { MB, SLEEP } from './programs.mjs';

/** @type {Pick<import('./index.mjs').Workload, 'against' | 'standalone' | 'unavailable'>} */
const IN_A_BROWSER = { against: 'nothing', standalone: true, unavailable: chromiumMissing };

/** A fast typist. */
const KEY_INTERVAL_MS = 100;
const HEAP_INTERVAL_MS = 250;
/** Five rows of the table per frame: a quick turn of the wheel. */
const SCROLL_STEP_PX = 190;

/** @type {import('./index.mjs').Workload[]} */
export const webConsole = [
  {
    ...IN_A_BROWSER,
    name: 'console-open',
    title: 'the console opens a terminal, warm cache',
    rows: latencyRows('ms', { label: 'first terminal painted', p50: valueAtMost(1000) }),
    timeoutSeconds: 120,
    run: (context) => withConsole(context, (fixture) => measureOpen(fixture, context)),
  },
  {
    ...IN_A_BROWSER,
    name: 'console-flood',
    title: 'typing into a terminal that prints 512 MB',
    rows: [
      { key: 'p50', label: 'key to echo p50', unit: 'ms', better: 'lower' },
      { key: 'p95', label: 'key to echo p95', unit: 'ms', better: 'lower', goal: valueAtMost(100) },
      { key: 'p99', label: 'key to echo p99', unit: 'ms', better: 'lower' },
      {
        key: 'heap',
        label: 'JS heap of the page, maximum',
        unit: 'MB',
        better: 'lower',
        goal: valueAtMost(100),
      },
      { key: 'rate', label: 'flood meanwhile', unit: 'MB/s', better: 'higher' },
    ],
    timeoutSeconds: 400,
    run: (context) => withConsole(context, (fixture) => measureFlood(fixture, context)),
  },
  {
    ...IN_A_BROWSER,
    name: 'console-rows',
    title: 'scrolling through a table of 1,000 processes',
    rows: [
      { key: 'p50', label: 'frame p50', unit: 'ms', better: 'lower' },
      { key: 'p95', label: 'frame p95', unit: 'ms', better: 'lower', goal: valueAtMost(34) },
      { key: 'p99', label: 'frame p99', unit: 'ms', better: 'lower' },
      {
        key: 'rows',
        label: 'rows in the DOM, maximum',
        unit: 'count',
        better: 'lower',
        goal: valueAtMost(100),
      },
    ],
    timeoutSeconds: 120,
    run: (context) => withConsole(context, (fixture) => measureRows(fixture, context)),
  },
];

async function measureOpen(fixture, { quick }) {
  const { browser, urlOf } = fixture;
  const ref = await startTerminal(fixture, ['sh', '-c', 'echo first-line; read -r line']);
  await browser.addInitScript(watchForTerminal, 'first-line');
  // The first one fills the cache.
  const samples = [];
  for (let i = -1; i < (quick ? 1 : 20); i++) {
    const page = await browser.newPage();
    await page.goto(urlOf(ref));
    const { ms, fetched } = await (await page.waitForFunction(() => globalThis.terminalPainted)).jsonValue();
    await page.close();
    if (i < 0) continue;
    if (fetched.length > 0) throw new Error(`not from the cache: ${fetched.join(', ')}`);
    samples.push(ms);
  }
  return latency(samples, 'ms');
}

async function measureFlood(fixture, { quick }) {
  const bytes = (quick ? 8 : 512) * MB;
  const ref = await startTerminal(fixture, floodProgram(bytes));
  const page = await fixture.browser.newPage();
  await page.goto(fixture.urlOf(ref));
  await page.locator('[data-role=driver]').waitFor();
  await page.locator('.xterm-rows', { hasText: 'ready' }).waitFor();
  await page.evaluate(watchEchoes);
  await page.locator('.terminal-host textarea').focus();

  const began = now();
  // The first key starts the flood.
  const keys = typeKeys(page);
  const heap = sampleHeap(page);
  try {
    await page.evaluate(() => globalThis.echoes.floodShown);
  } finally {
    await Promise.all([keys.stop(), heap.stop()]);
  }
  const seconds = (now() - began) / 1000;
  const typed = keys.values.length;
  await page.waitForFunction((count) => globalThis.echoes.samples.length === count, typed);
  const samples = await page.evaluate(() => globalThis.echoes.samples);
  const client = await fixture.connect();
  const { outputBytes } = await client.processes.get(ref);
  if (outputBytes < bytes) throw new Error(`the program has printed ${outputBytes} bytes of ${bytes}`);
  return {
    ...percentiles(samples),
    heap: Math.max(...heap.values) / MB,
    rate: bytes / MB / seconds,
  };
}

async function measureRows({ browser, urlOf, connect }, { quick }) {
  const count = quick ? 60 : 1_000;
  const client = await connect();
  await concurrently(count, 16, () => client.spawn(SLEEP));
  const page = await browser.newPage();
  await page.goto(urlOf(''));
  await page.locator(`[role=grid][aria-rowcount="${count}"]`).waitFor();
  const { frames, rows, last } = await page.evaluate(scrollThrough, SCROLL_STEP_PX);
  if (last !== count) throw new Error(`the table has shown ${last} rows of ${count}`);
  return { ...percentiles(frames), rows };
}

function percentiles(samples) {
  return {
    p50: percentile(samples, 0.5),
    p95: percentile(samples, 0.95),
    p99: percentile(samples, 0.99),
  };
}

/** Presses a key every 100 ms, whether or not the page has handled the last one. A slow page does not get fewer keys. */
function typeKeys(page) {
  return repeat(KEY_INTERVAL_MS, () => page.keyboard.press('x'));
}

/** Samples what the page has allocated in JavaScript: the heap, and the memory of its array buffers. */
function sampleHeap(page) {
  const session = page.context().newCDPSession(page);
  return repeat(HEAP_INTERVAL_MS, async () => {
    const { usedSize, backingStorageSize } = await (await session).send('Runtime.getHeapUsage');
    return usedSize + backingStorageSize;
  });
}

/** Calls `step` in an interval. `stop` waits for all calls, which have then filled `values`. */
function repeat(intervalMs, step) {
  const values = [];
  const calls = [];
  let failure = null;
  const call = () => {
    const value = step().then(
      (result) => values.push(result),
      (error) => {
        failure ??= error;
      },
    );
    calls.push(value);
  };
  call();
  const timer = setInterval(call, intervalMs);
  const stop = async () => {
    clearInterval(timer);
    await Promise.all(calls);
    if (failure !== null) throw failure;
  };
  return { values, stop };
}

/**
 * Prints lines of 80 bytes as fast as the terminal takes them, from the first key on. Each line has the number of keys that have arrived,
 * so that any screen shows the last echo. After the flood it prints a line for each key.
 */
function floodProgram(bytes) {
  const script = `
    const { writeSync } = require('node:fs');
    let keys = 0;
    let left = ${bytes};
    const line = () => ('<' + keys + '> cc -O2 -c source-' + left + '.c ').padEnd(79, '.') + '\\n';
    const flood = () => {
      if (left <= 0) return void writeSync(1, 'flood-over <' + keys + '>\\n');
      // The text of the lines differs from block to block.
      const block = line().repeat(50);
      writeSync(1, block);
      left -= block.length;
      setImmediate(flood);
    };
    process.stdin.setRawMode(true);
    process.stdin.once('data', () => setImmediate(flood));
    process.stdin.on('data', (data) => {
      keys += data.length;
      if (left <= 0) writeSync(1, '<' + keys + '>\\n');
    });
    writeSync(1, 'ready\\n');
  `;
  return [process.execPath, '-e', script];
}

// The functions below run in the page. A message that is posted in a frame's callback arrives after that frame is painted.

/** Sets `terminalPainted` when a terminal shows a text: the time since the navigation, and the scripts and styles that were not cached. */
function watchForTerminal(text) {
  const painted = new MessageChannel();
  const nextFrame = () => requestAnimationFrame(() => painted.port2.postMessage(null));
  painted.port1.onmessage = () => {
    if (!document.querySelector('.xterm-rows')?.textContent.includes(text)) {
      nextFrame();
      return;
    }
    const ms = performance.now();
    const assets = performance.getEntriesByType('resource').filter(({ name }) => name.includes('/assets/'));
    const fetched = assets.filter(({ transferSize }) => transferSize > 0).map(({ name }) => name);
    globalThis.terminalPainted = { ms, fetched };
  };
  nextFrame();
}

/** Sets `echoes`: the time from each key press, as the browser received it, to the frame that shows its echo. */
function watchEchoes() {
  const samples = [];
  const waiting = [];
  let showFlood;
  const floodShown = new Promise((resolve) => {
    showFlood = resolve;
  });
  globalThis.echoes = { samples, floodShown };
  const painted = new MessageChannel();
  const nextFrame = () => requestAnimationFrame(() => painted.port2.postMessage(null));
  painted.port1.onmessage = () => {
    const time = performance.now();
    const text = document.querySelector('.xterm-rows').textContent;
    const echoed = Math.max(0, ...Array.from(text.matchAll(/<(\d+)>/g), ([, keys]) => Number(keys)));
    while (samples.length < echoed && waiting.length > 0) samples.push(time - waiting.shift());
    if (text.includes('flood-over')) showFlood();
    if (waiting.length > 0) nextFrame();
  };
  const pressed = ({ timeStamp }) => {
    waiting.push(timeStamp);
    if (waiting.length === 1) nextFrame();
  };
  document.addEventListener('keydown', pressed, { capture: true });
}

/** Scrolls the table to its end and back, one step per frame. */
async function scrollThrough(step) {
  const table = document.querySelector('[role=grid]');
  const nextFrame = () => new Promise(requestAnimationFrame);
  const frames = [];
  let [rows, last] = [0, 0];
  let before = await nextFrame();
  for (const distance of [step, -step]) {
    for (let top = null; top !== table.scrollTop; ) {
      top = table.scrollTop;
      table.scrollTop += distance;
      const time = await nextFrame();
      frames.push(time - before);
      before = time;
      const shown = table.querySelectorAll('[role=row]');
      rows = Math.max(rows, shown.length);
      last = Math.max(last, Number(shown[shown.length - 1].ariaRowIndex));
    }
  }
  return { frames, rows, last };
}
