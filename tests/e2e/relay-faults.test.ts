import { expect, test } from 'vitest';
import { decodeFrame, encodeFrame } from '../../src/relay/frames/frame.ts';
import { freePort } from '../support/relay.ts';
import { FaultFixture } from '../support/relay-faults.ts';
import type { FrameFate, PassingFrame } from '../support/relay-frame-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { RedisServer } from '../unit/relay/service/redis-server.ts';
import { type RelayNode, relayFolder, startNode } from './relay-nodes.ts';

const SIDES = ['executorSide', 'harnessSide'] as const;
type Side = (typeof SIDES)[number];

/** The frames of one direction on one side. */
interface Lane {
  readonly side: Side;
  readonly towards: PassingFrame['towards'];
}
const LANES: readonly Lane[] = SIDES.flatMap((side) => [
  { side, towards: 'relay' as const },
  { side, towards: 'end' as const },
]);

const HARNESS_LANES = LANES.filter(({ side }) => side === 'harnessSide');

/** A disturbance of one session. */
interface Case {
  readonly what: string;
  readonly lane: Lane;
  /** The fate of a frame of the lane. */
  fate(frame: PassingFrame): FrameFate;
}

async function startFixture(): Promise<FaultFixture> {
  const port = await freePort();
  const fixture = await FaultFixture.open(`http://127.0.0.1:${port}`);
  await startNode(relayFolder(), ...nodeFlags(port, fixture));
  return fixture;
}

function nodeFlags(port: number, { executorSide, harnessSide }: FaultFixture): string[] {
  const listen = ['--listen', `http://127.0.0.1:${port}`];
  return [...listen, '--public-url', executorSide.url, '--node-url', harnessSide.url];
}

/** Plays a session for every case, several at a time. Returns what was noticed of those whose frame came along. */
async function playAll(
  fixture: FaultFixture,
  cases: readonly Case[],
  otherwise: (side: Side, frame: PassingFrame) => FrameFate = () => 'pass',
): Promise<{ readonly what: string; readonly states: readonly string[] }[]> {
  const byEnvironment = new Map<string, Case>();
  const met = new Set<Case>();
  for (const side of SIDES) {
    fixture[side].judge = (frame) => {
      const one = byEnvironment.get(frame.environmentId);
      const lane = one?.lane.side === side && one.lane.towards === frame.towards;
      const fate = lane ? one.fate(frame) : 'pass';
      if (lane && fate !== 'pass') met.add(one);
      return fate === 'pass' ? otherwise(side, frame) : fate;
    };
  }
  const played: { what: string; states: readonly string[] }[] = [];
  const queue = [...cases];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const one = next;
      const environment = fixture.environment();
      byEnvironment.set(environment.id, one);
      const { states } = await fixture.play(environment.id).catch((error: Error) => {
        throw new Error(`${one.what}: ${error.message}`, { cause: error });
      });
      await environment.close();
      if (met.has(one)) played.push({ what: one.what, states });
    }
  };
  await Promise.all(Array.from({ length: SESSIONS_AT_ONCE }, worker));
  return played;
}

const SESSIONS_AT_ONCE = 24;

/** Disturbs the frame at each place of the first connection, in every other lane: the streams' own tests do so in all of them. */
function atEveryPlace(what: string, lanes: readonly Lane[], fate: Case['fate']): Case[] {
  const cases = lanes.flatMap((lane, index) =>
    Array.from({ length: PLACES }, (_, place) => ({ lane, place, isPlayed: (index + place) % 2 === 0 })),
  );
  return cases.flatMap(({ lane, place, isPlayed }) => {
    if (!isPlayed) return [];
    const name = `${what} frame ${place} towards the ${lane.towards}, ${lane.side}`;
    const fateAt: Case['fate'] = (frame) =>
      frame.connection === 0 && frame.place === place ? fate(frame) : 'pass';
    return [{ what: name, lane, fate: fateAt }];
  });
}

/** Sessions have some more frames in some lanes; where they have fewer, nothing happens. */
const PLACES = 12;

/** Disturbs every record of a session, in every lane. */
function inEveryLane(what: string, fate: Case['fate']): Case[] {
  return LANES.map((lane) => ({
    what: `${what} towards the ${lane.towards}, ${lane.side}`,
    lane,
    fate: (frame) => (isRecord(frame) ? fate(frame) : 'pass'),
  }));
}

function kindOf({ bytes }: Pick<PassingFrame, 'bytes'>) {
  return decodeFrame(bytes).body.kind;
}

function isRecord(frame: Pick<PassingFrame, 'bytes'>): boolean {
  return kindOf(frame) === 'data';
}

/** A record has its tag at its end. */
function tampered(frame: PassingFrame): FrameFate {
  if (!isRecord(frame)) return 'pass';
  const { bytes } = frame;
  const copy = Buffer.from(bytes);
  copy[copy.length - 1]! ^= 1;
  return [copy];
}

/** Most sessions were disturbed behind their beginning, and went on. */
function expectNoticed(played: Awaited<ReturnType<typeof playAll>>): void {
  const noticed = played.filter(({ states }) => states.length > 0);
  expect(noticed.length).toBeGreaterThan(played.length / 2);
  for (const { what, states } of noticed)
    expect(states.slice(0, 2), what).toEqual(['recovering', 'connected']);
}

/** Takes the mark from handshakes that offers acks: both ends then talk like the reference. */
function withoutAcks(side: Side, { bytes, towards }: PassingFrame): FrameFate {
  const { streamId, body } = decodeFrame(bytes);
  if (side !== 'harnessSide' || towards !== 'relay' || body.kind !== 'handshake') return 'pass';
  return [encodeFrame({ streamId, body })];
}

test('a socket lost at any frame loses nothing, and sessions do not notice', async () => {
  const cases = atEveryPlace('cut at', LANES, () => 'cut');
  const played = await playAll(await startFixture(), cases);
  expect(played.length).toBeGreaterThan(cases.length / 2);
  expect(played.filter(({ states }) => states.length > 0)).toEqual([]);
});

test('duplicated, delayed, replayed and dropped records lose nothing, and sessions do not notice', async () => {
  const cases = [
    ...inEveryLane('all twice', ({ bytes }) => [bytes, bytes]),
    ...inEveryLane('every other late', ({ place }) => (place % 2 === 0 ? 'swap' : 'pass')),
    ...inEveryLane('all followed by an older one', ({ bytes, place, earlier }) => {
      const older = earlier[Math.floor(place / 2)];
      return older !== undefined && isRecord({ bytes: older }) ? [bytes, older] : 'pass';
    }),
    ...inEveryLane('every fourth lost', ({ place }) => (place % 4 === 0 ? [] : 'pass')),
  ];
  const played = await playAll(await startFixture(), cases);
  expect(played).toHaveLength(cases.length);
  expect(played.filter(({ states }) => states.length > 0)).toEqual([]);
});

test('a tampered record ends the stream, and the session recovers over another', async () => {
  const cases = atEveryPlace('tampered', HARNESS_LANES, tampered);
  const played = await playAll(await startFixture(), cases);
  expect(played.length).toBeGreaterThan(cases.length / 2);
  expectNoticed(played);
});

test('truncated frames lose nothing', async () => {
  // A handshake that does not arrive is waited for, which takes its time.
  const cases = atEveryPlace('truncated', LANES, (frame) =>
    kindOf(frame) === 'handshake' ? 'pass' : [frame.bytes.subarray(0, frame.bytes.length / 2)],
  );
  const played = await playAll(await startFixture(), cases);
  expect(played.length).toBeGreaterThan(cases.length / 2);
});

test('without acks a lost socket or a damaged record ends the stream, and the session recovers over another', async () => {
  const cases = [
    ...atEveryPlace('cut at', LANES, () => 'cut'),
    ...atEveryPlace('tampered', HARNESS_LANES, tampered),
  ].filter((_, index) => index % 3 === 0);
  const played = await playAll(await startFixture(), cases, withoutAcks);
  expect(played.length).toBeGreaterThan(cases.length / 2);
  expectNoticed(played);
});

test('a killed and restarted relay loses nothing', async () => {
  const port = await freePort();
  const fixture = await FaultFixture.open(`http://127.0.0.1:${port}`);
  const folder = relayFolder();
  let node = await startNode(folder, ...nodeFlags(port, fixture));
  const restart = async () => {
    await node.stop('SIGKILL');
    node = await startNode(folder, ...nodeFlags(port, fixture));
  };
  const { states } = await fixture.play(fixture.environment().id, { printing: restart });
  expect(states).toEqual([]);
});

test('sessions move to another node when their node drains, and lose nothing', async () => {
  const { fixture, nodes } = await startFleet();
  const [first] = nodes as [RelayNode];
  const { states } = await fixture.play(fixture.environment().id, {
    printing: async () => {
      expect(await first.stop('SIGTERM')).toBe(0);
    },
  });
  expect(states).toEqual([]);
});

test('sessions continue while the store is gone, and lost sockets reconnect afterwards', async () => {
  const { fixture, redis } = await startFleet();
  const { states } = await fixture.play(fixture.environment().id, {
    started: () => redis.stop(),
    printing: async () => {
      fixture.executorSide.cut();
      await waitFor('a refusal', () => fixture.executorSide.refusals.includes(503));
      await redis.start();
    },
  });
  expect(states).toEqual([]);
});

/** Two nodes with a store. Executors land at the first that is there; harnesses go where they are sent. */
async function startFleet() {
  const redis = await RedisServer.start();
  const folder = relayFolder();
  const urls = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
  const fixture = await FaultFixture.open(...urls);
  const nodes: RelayNode[] = [];
  for (const url of urls) {
    const places = ['--listen', url, '--public-url', fixture.executorSide.url, '--node-url', url];
    nodes.push(await startNode(folder, ...places, '--store', redis.url));
  }
  return { fixture, redis, nodes };
}
