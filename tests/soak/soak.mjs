// Runs many clients whose connections are cut and resumed all the time. Afterwards the server must hold no more than before.
import { fileURLToPath } from 'node:url';
import { startServer } from '../../scripts/reference.mjs';
import { Random } from '../fuzz/random.mjs';
import { stateOf, waitUntilIdle } from '../support/server-state.mjs';
import { Member } from './member.mjs';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
/** A dropped client has 20 s to resume; closed processes are forgotten soon. */
const FLAGS = ['--detached-session-ttl', '20s', '--closed-process-retention', '1s', '--log-level', 'error'];
/** The warm-up brings the heap to its working size, unless the machine is too busy for that. */
const WARM_UP = { share: 0.3, minSeconds: 6, maxSeconds: 30 };
const ALLOWANCE = { descriptors: 4, memory: Number.POSITIVE_INFINITY, timeoutMs: 60_000 };
/** Memory that grows by more in each of these rounds leaks. A heap that was not warm yet grows less from round to round. */
const GROWTH = { memory: 24 * 1024 * 1024, rounds: 4 };
/** Members that act at the same time. */
const CONCURRENCY = 16;
/** How often members act at least, per connection. On a busy machine the time may be up when they have hardly connected. */
const MIN_ACTS = 10;

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
    // The first program also starts the watchdog, which ends all programs if the server dies.
    const empty = { ...stateOf(server.pid), processes: 1 };
    const random = new Random(seed);
    const warmUp = Math.min(WARM_UP.maxSeconds, Math.max(WARM_UP.minSeconds, seconds * WARM_UP.share));
    await runMembers({ url: server.url, connections, processes, random, endsAt: inSeconds(warmUp) });
    let before = await waitUntilIdle(server.pid, empty, { ...ALLOWANCE, descriptors: 8 });
    for (let round = 1; ; round++) {
      report(`before: ${describe(before)}`);
      const endsAt = inSeconds(seconds);
      const counts = await runMembers({ url: server.url, connections, processes, random, endsAt });
      const after = await waitUntilIdle(server.pid, before, ALLOWANCE);
      report(`after:  ${describe(after)}`);
      if (after.memory <= before.memory + GROWTH.memory) return { ...counts, before, after };
      if (round === GROWTH.rounds) {
        throw new Error(`the memory of the server still grows: ${JSON.stringify({ before, after })}`);
      }
      before = { ...before, memory: after.memory };
    }
  };
  try {
    return await Promise.race([died, soak()]);
  } finally {
    await server.stop();
  }
}

/** All members connect, act until the time is up and they have acted often enough, and disconnect. */
async function runMembers({ url, connections, processes, random, endsAt }) {
  const members = Array.from({ length: connections }, () => new Member(url));
  await forEachMember(members, (member) => member.connect());
  await forEachMember(members.slice(0, processes), (member) => member.startProgram());
  const counts = { drops: 0, lines: 0, restarts: 0, requests: 0 };
  const idle = new Set(members);
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    do {
      const member = random.pick([...idle]);
      idle.delete(member);
      await act(member, random, counts);
      idle.add(member);
    } while (performance.now() < endsAt || sum(counts) < MIN_ACTS * connections);
  });
  await Promise.all(workers);
  await forEachMember(
    members.filter((member) => member.running),
    (member) => member.endProgram(),
  );
  for (const member of members) member.disconnect();
  return counts;
}

function sum({ drops, lines, restarts, requests }) {
  return drops + lines + restarts + requests;
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
    await member.writeLine(`${'x'.repeat(random.int(0, 2000))}\n`);
    if (random.chance(0.3)) await member.echoed();
    counts.lines++;
  } else {
    await member.endProgram();
    await member.startProgram();
    counts.restarts++;
  }
}

/** Calls `work` for each member, a few at a time. */
async function forEachMember(members, work) {
  const waiting = [...members];
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    for (let member = waiting.shift(); member !== undefined; member = waiting.shift()) await work(member);
  });
  await Promise.all(workers);
}

function inSeconds(seconds) {
  return performance.now() + seconds * 1000;
}

function describe({ processes, descriptors, memory }) {
  return `${processes} processes, ${descriptors} descriptors, ${(memory / 2 ** 20).toFixed(1)} MiB`;
}
