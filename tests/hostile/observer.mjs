// A well-behaved client in its own process. While a measurement lasts, it sends small requests and records how long the server's event loop kept
// it waiting. Arguments: the URL and the process id of the server; an `http:` URL is that of a relay. The parent sends `begin` and `end`.
import { readFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import WebSocket from 'ws';

/**
 * Between two requests. All of a block lies between two answers, together with the CPU time of a pause at most. A shorter pause measures
 * the same: the requests would only take CPU time themselves.
 */
const PAUSE_MS = 4;
const NS_PER_MS = 1e6;

const [url, serverPid] = process.argv.slice(2);

/** Of a main thread: time on a CPU, and time spent waiting for one, in ms (proc_pid_schedstat, sched-stats.rst). */
function threadTimes(pid) {
  const [running, waiting] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1').split(' ');
  return { running: Number(running) / NS_PER_MS, waiting: Number(waiting) / NS_PER_MS };
}

/** The state at one answer. */
function reading() {
  return {
    at: performance.now(),
    observerWaited: threadTimes(process.pid).waiting,
    server: threadTimes(serverPid),
  };
}

/**
 * What happened between two answers. `blockMs` is the CPU time that the main thread of the server used. It cannot include time in which
 * the server waited for a CPU. The time in which this process waited for one is subtracted, because the server may have answered and
 * worked on in that time. `stallMs` is the elapsed time without both waits: it also covers calls that sleep.
 */
function between(before, after) {
  const observerWaited = after.observerWaited - before.observerWaited;
  const serverWaited = after.server.waiting - before.server.waiting;
  const elapsed = after.at - before.at;
  return {
    blockMs: Math.max(0, after.server.running - before.server.running - observerWaited),
    stallMs: Math.max(0, elapsed - observerWaited - serverWaited),
    wallMs: elapsed,
  };
}

const lost = () => process.exit(process.connected ? 1 : 0);
process.once('disconnect', () => process.exit(0));
// The parent may have disconnected while the modules were loaded.
if (!process.connected) process.exit(0);

/** Opens a session and returns a function that sends a small request. */
async function openSession() {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  let nextId = 1;
  let answered = () => {};
  socket.on('message', () => answered());
  socket.on('close', lost);
  socket.on('error', () => process.exit(1));
  const call = async (method, params) => {
    const answer = new Promise((resolve) => {
      answered = resolve;
    });
    socket.send(JSON.stringify({ id: nextId++, method, params }));
    await answer;
  };
  await new Promise((resolve) => socket.once('open', resolve));
  await call('initialize', { clientName: 'observer' });
  socket.send('{"method":"initialized","params":{}}');
  return () => call('environment/status', {});
}

/** Returns a function that sends a request over one connection. */
function openRelay() {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return () =>
    new Promise((resolve) => {
      get(`${url}/healthz`, { agent }, (response) => response.resume().once('end', resolve)).on(
        'error',
        lost,
      );
    });
}

let measuring = false;
let changed = () => {};
process.on('message', (message) => {
  measuring = message === 'begin';
  changed();
});

const ask = url.startsWith('http:') ? openRelay() : await openSession();

// Between two measurements it sends nothing: a request each millisecond costs as much as most of the measured ones.
for (;;) {
  while (!measuring) {
    await new Promise((resolve) => {
      changed = resolve;
    });
  }
  await ask();
  let last = reading();
  let answers = 0;
  const worst = { blockMs: 0, stallMs: 0, wallMs: 0 };
  process.send({ begun: true });
  for (let ends = false; !ends; answers++) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    ends = !measuring;
    await ask();
    const now = reading();
    for (const [name, ms] of Object.entries(between(last, now))) worst[name] = Math.max(worst[name], ms);
    last = now;
  }
  process.send({ answers, ...worst });
}
