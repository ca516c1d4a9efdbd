import { withRelay, withRelayedServer } from '../harness/relay-fixture.mjs';
import { median } from '../harness/statistics.mjs';
import { IdleExecutors } from '../wire/idle-executors.mjs';
import { cpuSeconds, residentBytes } from '../wire/proc.mjs';
import { CLIENT_BUSY, clientShare } from './client-share.mjs';
import { latency, latencyRows } from './latency.mjs';
import { concurrently, now, sleep, timed } from './pace.mjs';
import { GB, MB, RAW_CAT, zeros } from './programs.mjs';

/** A registry answers this many calls of one environment in 10 s, and a harness needs two. */
const HANDSHAKES = 200;
const HANDSHAKES_IN_FLIGHT = 8;

/** Between two key presses. */
const PAUSE_MS = 3;

const SETTLE_MS = 1_500;

/** @type {readonly import('./index.mjs').Workload[]} */
export const relay = [
  {
    name: 'relay-stream',
    title: '128 MB of output through a relay',
    rows: [
      { key: 'rate', label: 'rate', unit: 'MB/s', better: 'higher' },
      { key: 'direct', label: 'without the relay', unit: 'MB/s', better: 'higher' },
      { key: 'share', label: 'of the rate without', unit: 'x', better: 'higher' },
      { key: 'serverCpu', label: 'server CPU', unit: 's/GB', better: 'lower' },
      { key: 'directCpu', label: 'server CPU without', unit: 's/GB', better: 'lower' },
      { key: 'relayCpu', label: 'relay CPU', unit: 's/GB', better: 'lower' },
      CLIENT_BUSY,
    ],
    against: 'nothing',
    standalone: true,
    run: (context) => withRelayedServer(context, (fixture) => measureStream(fixture, context)),
  },
  {
    name: 'relay-echo',
    title: 'terminal echo through a relay',
    rows: [
      ...latencyRows('ms', { label: 'echo' }),
      { key: 'direct', label: 'p50 without the relay', unit: 'ms', better: 'lower' },
      { key: 'share', label: 'of the p50 without', unit: 'x', better: 'lower' },
    ],
    against: 'nothing',
    standalone: true,
    run: (context) => withRelayedServer(context, (fixture) => measureEcho(fixture, context)),
  },
  {
    name: 'relay-handshakes',
    title: 'harnesses that connect through a relay, 8 concurrently',
    rows: [{ key: 'rate', label: 'sessions opened and closed', unit: '/s', better: 'higher' }],
    against: 'nothing',
    standalone: true,
    run: (context) => withRelayedServer(context, (fixture) => measureHandshakes(fixture, context)),
  },
  {
    name: 'relay-idle',
    title: '5,000 idle environments at one relay',
    rows: [
      { key: 'each', label: 'RSS per environment', unit: 'KB', better: 'lower' },
      { key: 'rate', label: 'registered and connected', unit: '/s', better: 'higher' },
    ],
    against: 'nothing',
    standalone: true,
    timeoutSeconds: 120,
    run: (context) => withRelay(context, (relay) => measureIdle(relay, context)),
  },
];

async function measureStream({ relay: { pid }, server, direct, relayed }, { quick }) {
  const bytes = (quick ? 2 : 128) * MB;
  for (const client of [direct, relayed]) await output(client, 'warm', (quick ? 1 : 8) * MB);
  const directBefore = cpuSeconds(server.pid);
  const without = await output(direct, 'measured', bytes);
  const [serverBefore, relayBefore] = [cpuSeconds(server.pid), cpuSeconds(pid)];
  const busy = clientShare();
  const through = await output(relayed, 'measured', bytes);
  return {
    rate: through,
    direct: without,
    share: through / without,
    serverCpu: (cpuSeconds(server.pid) - serverBefore) / (bytes / GB),
    directCpu: (serverBefore - directBefore) / (bytes / GB),
    relayCpu: (cpuSeconds(pid) - relayBefore) / (bytes / GB),
    client: busy(),
  };
}

/** Megabytes per second of a program's output, to the last byte. */
async function output(client, processId, bytes) {
  const began = now();
  const started = await client.backend.start(params(processId, zeros(bytes)));
  let arrived = 0;
  for await (const event of started.events()) {
    if (event.type === 'output') arrived += event.bytes.length;
    else if (event.type !== 'exited' && event.type !== 'closed') throw new Error(`output was ${event.type}`);
  }
  if (arrived !== bytes) throw new Error(`${arrived} bytes of ${bytes} arrived`);
  return bytes / MB / ((now() - began) / 1000);
}

async function measureEcho({ direct, relayed }, { quick }) {
  const pace = { warmUp: quick ? 1 : 20, min: quick ? 5 : 50, max: quick ? 5 : 400, seconds: 6 };
  const without = await timed(await echoes(direct), pace);
  const through = await timed(await echoes(relayed), pace);
  const measured = latency(through, 'ms');
  const p50Direct = median(without);
  return { ...measured, direct: p50Direct, share: measured.p50 / p50Direct };
}

/** Returns a function that presses a key on a terminal and measures its echo. */
async function echoes(client) {
  const terminal = await client.backend.start({ ...params('echo', RAW_CAT), tty: true });
  const events = terminal.events();
  const next = async () => {
    const { value } = await events.next();
    if (value?.type !== 'output') throw new Error(`no output, but ${value?.type}`);
    return Buffer.from(value.bytes).toString();
  };
  for (let printed = ''; printed !== 'ready'; ) printed += await next();
  return async () => {
    const began = now();
    const accepted = terminal.write('x');
    const echoed = await next();
    const took = now() - began;
    if (echoed !== 'x') throw new Error('a key press was not echoed');
    await accepted;
    await sleep(PAUSE_MS);
    return took;
  };
}

async function measureHandshakes({ connect }, { quick }) {
  const count = quick ? 4 : HANDSHAKES;
  const began = now();
  await concurrently(count, HANDSHAKES_IN_FLIGHT, async () => {
    const client = await connect();
    await client.close();
  });
  return { rate: count / ((now() - began) / 1000) };
}

async function measureIdle(relay, { quick }) {
  const count = quick ? 20 : 5_000;
  const executors = new IdleExecutors(relay);
  try {
    // The first ones load the code that every one needs.
    await concurrently(10, 2, (index) => executors.add(index));
    await sleep(quick ? 50 : SETTLE_MS);
    const before = residentBytes(relay.pid);
    const began = now();
    await concurrently(count, 16, (index) => executors.add(10 + index));
    const seconds = (now() - began) / 1000;
    await sleep(quick ? 50 : SETTLE_MS);
    if (executors.lost > 0) throw new Error(`the relay has let ${executors.lost} executors go`);
    return { each: (residentBytes(relay.pid) - before) / count / 1024, rate: count / seconds };
  } finally {
    executors.close();
  }
}

function params(processId, argv) {
  return { processId, argv, cwd: 'file:///', env: { PATH: process.env.PATH }, tty: false };
}
