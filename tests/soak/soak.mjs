// Many clients for a long time, constantly cut off and back: the server must end with what it started with.
import { fileURLToPath } from 'node:url';
import { startServer } from '../../scripts/reference.mjs';
import { Random } from '../fuzz/random.mjs';
import { calm, stateOf } from '../support/server-state.mjs';
import { Member } from './member.mjs';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
/** What is dropped has this long to come back; what is over is soon forgotten. */
const FLAGS = ['--detached-session-ttl', '20s', '--closed-process-retention', '1s', '--log-level', 'error'];
/** The first part of the time brings the heap to its working size; what comes on top of that afterwards is a leak. */
const WARM_UP = { share: 0.3, minSeconds: 6, maxSeconds: 30 };
const SPARE = { descriptors: 4, memory: 24 * 1024 * 1024, timeoutMs: 60_000 };
/** Members that act at the same time. */
const AT_ONCE = 16;

/**
 * @param {object} options
 * @param {number} options.seconds
 * @param {number} options.connections
 * @param {number} options.processes
 * @param {number} [options.seed]
 * @param {(line: string) => void} [options.report]
 */
export async function runSoak({ seconds, connections, processes, seed = 1, report = () => {} }) {
  const server = await startServer(process.execPath, [BIN, ...FLAGS]);
  const died = server.exited.then(({ code, signal }) => {
    throw new Error(`the server ended (${code ?? signal})`);
  });
  died.catch(() => {});
  const soak = async () => {
    // With the first program comes a process that ends them all should the server die.
    const empty = { ...stateOf(server.pid), processes: 1 };
    const random = new Random(seed);
    const warmUp = Math.min(WARM_UP.maxSeconds, Math.max(WARM_UP.minSeconds, seconds * WARM_UP.share));
    await crowd({ url: server.url, connections, processes, random, endsAt: inSeconds(warmUp) });
    await calm(server.pid, empty, { ...SPARE, memory: Number.POSITIVE_INFINITY, descriptors: 8 });
    const before = stateOf(server.pid);
    report(`before: ${words(before)}`);
    const counts = await crowd({
      url: server.url,
      connections,
      processes,
      random,
      endsAt: inSeconds(seconds),
    });
    const after = await calm(server.pid, before, SPARE);
    report(`after:  ${words(after)}`);
    return { ...counts, before, after };
  };
  try {
    return await Promise.race([died, soak()]);
  } finally {
    await server.stop();
  }
}

/** Everybody comes, everybody does something until the time is up, everybody leaves. */
async function crowd({ url, connections, processes, random, endsAt }) {
  const members = Array.from({ length: connections }, () => new Member(url));
  await inTurns(members, (member) => member.connect());
  await inTurns(members.slice(0, processes), (member) => member.startProgram());
  const counts = { drops: 0, lines: 0, restarts: 0, requests: 0 };
  const idle = new Set(members);
  const workers = Array.from({ length: AT_ONCE }, async () => {
    do {
      const member = random.pick([...idle]);
      idle.delete(member);
      await act(member, random, counts);
      idle.add(member);
    } while (performance.now() < endsAt);
  });
  await Promise.all(workers);
  await inTurns(
    members.filter((member) => member.running),
    (member) => member.endProgram(),
  );
  for (const member of members) member.leave();
  return counts;
}

async function act(member, random, counts) {
  const choice = random.next();
  if (choice < 0.3) {
    await member.dropAndResume();
    counts.drops++;
  } else if (!member.running || choice < 0.5) {
    await member.ping();
    counts.requests++;
  } else if (choice < 0.95) {
    await member.tell(`${'x'.repeat(random.int(0, 2000))}\n`);
    if (random.chance(0.3)) await member.echoed();
    counts.lines++;
  } else {
    await member.endProgram();
    await member.startProgram();
    counts.restarts++;
  }
}

/** A few at a time. */
async function inTurns(members, work) {
  const waiting = [...members];
  const workers = Array.from({ length: AT_ONCE }, async () => {
    for (let member = waiting.shift(); member !== undefined; member = waiting.shift()) await work(member);
  });
  await Promise.all(workers);
}

function inSeconds(seconds) {
  return performance.now() + seconds * 1000;
}

function words({ processes, descriptors, memory }) {
  return `${processes} processes, ${descriptors} descriptors, ${(memory / 2 ** 20).toFixed(1)} MiB`;
}
