import { expect, onTestFinished, test, vi } from 'vitest';
import { decodeFrame, encodeFrame } from '../../src/relay/frames/frame.ts';
import { onFreePort } from '../support/free-port.ts';
import { FaultFixture } from '../support/relay-faults.ts';
import { type FrameAction, type PassingFrame, RelayFrameProxy } from '../support/relay-frame-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { RedisServer } from '../unit/relay/service/redis-server.ts';
import { type RelayNode, relayFolder, startNode } from './relay-nodes.ts';

// Each test runs dozens of sessions. They wait for events, not for a time.
vi.setConfig({ testTimeout: 300_000 });

const SIDES = ['executorSide', 'harnessSide'] as const;
type Side = (typeof SIDES)[number];

/** One direction of frames on one side. */
interface Lane {
  readonly side: Side;
  readonly towards: PassingFrame['towards'];
}
const LANES: readonly Lane[] = SIDES.flatMap((side) => [
  { side, towards: 'relay' as const },
  { side, towards: 'end' as const },
]);

const HARNESS_LANES = LANES.filter(({ side }) => side === 'harnessSide');

/** A fault in one session. */
interface Case {
  readonly what: string;
  readonly lane: Lane;
  /** Returns what happens to a frame of the lane. */
  action(frame: PassingFrame): FrameAction;
}

async function startFixture(): Promise<FaultFixture> {
  const fixture = await FaultFixture.open();
  await startTarget(fixture, relayFolder());
  return fixture;
}

/** Starts a node and makes it the only target of the proxies. */
async function startTarget(fixture: FaultFixture, folder: string): Promise<RelayNode> {
  const { executorSide, harnessSide } = fixture;
  const urls = ['--public-url', executorSide.url, '--node-url', harnessSide.url];
  const { node, url } = await startListening(folder, ...urls);
  for (const side of SIDES) fixture[side].targets = [url];
  return node;
}

/** Starts a node. Returns it with the URL on which it listens: the node itself prints its public URL. */
function startListening(folder: string, ...flags: string[]) {
  return onFreePort(async (port) => {
    const url = `http://127.0.0.1:${port}`;
    return { node: await startNode(folder, '--listen', url, ...flags), url };
  });
}

/** Runs a session for every case, several concurrently. Returns the state changes of sessions whose fault occurred. */
async function runAll(
  fixture: FaultFixture,
  cases: readonly Case[],
  otherwise: (side: Side, frame: PassingFrame) => FrameAction = () => 'pass',
): Promise<{ readonly what: string; readonly states: readonly string[] }[]> {
  const byEnvironment = new Map<string, Case>();
  const occurred = new Set<Case>();
  for (const side of SIDES) {
    fixture[side].decide = (frame) => {
      const one = byEnvironment.get(frame.environmentId);
      const lane = one?.lane.side === side && one.lane.towards === frame.towards;
      const action = lane ? one.action(frame) : 'pass';
      if (lane && action !== 'pass') occurred.add(one);
      return action === 'pass' ? otherwise(side, frame) : action;
    };
  }
  const completed: { what: string; states: readonly string[] }[] = [];
  const queue = [...cases];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const one = next;
      const environment = fixture.environment();
      byEnvironment.set(environment.id, one);
      const { states } = await fixture.runSession(environment.id).catch((error: Error) => {
        throw new Error(`${one.what}: ${error.message}`, { cause: error });
      });
      await environment.close();
      if (occurred.has(one)) completed.push({ what: one.what, states });
    }
  };
  await Promise.all(Array.from({ length: SESSION_CONCURRENCY }, worker));
  return completed;
}

const SESSION_CONCURRENCY = 12;

/** Applies a fault at each position of the first connection, in every other lane. The unit tests of streams cover all lanes. */
function atEveryPosition(what: string, lanes: readonly Lane[], action: Case['action']): Case[] {
  const cases = lanes.flatMap((lane, index) =>
    Array.from({ length: FRAME_POSITIONS }, (_, position) => ({
      lane,
      position,
      included: (index + position) % 2 === 0,
    })),
  );
  return cases.flatMap(({ lane, position, included }) => {
    if (!included) return [];
    const name = `${what} frame ${position} towards the ${lane.towards}, ${lane.side}`;
    const actionAt: Case['action'] = (frame) =>
      frame.connection === 0 && frame.index === position ? action(frame) : 'pass';
    return [{ what: name, lane, action: actionAt }];
  });
}

/** Positions to cover. In lanes with fewer frames the fault does not occur. */
const FRAME_POSITIONS = 12;

/** Applies a fault to every record of a session, in every lane. */
function inEveryLane(what: string, action: Case['action']): Case[] {
  return LANES.map((lane) => ({
    what: `${what} towards the ${lane.towards}, ${lane.side}`,
    lane,
    action: (frame) => (isRecord(frame) ? action(frame) : 'pass'),
  }));
}

function kindOf({ bytes }: Pick<PassingFrame, 'bytes'>) {
  return decodeFrame(bytes).body.kind;
}

function isRecord(frame: Pick<PassingFrame, 'bytes'>): boolean {
  return kindOf(frame) === 'data';
}

/** Changes the last byte of a record, which is part of its tag. */
function tampered(frame: PassingFrame): FrameAction {
  if (!isRecord(frame)) return 'pass';
  const { bytes } = frame;
  const copy = Buffer.from(bytes);
  copy[copy.length - 1]! ^= 1;
  return [copy];
}

/** Expects that most sessions had a fault after the handshake and recovered. */
function expectRecovered(completed: Awaited<ReturnType<typeof runAll>>): void {
  const recovered = completed.filter(({ states }) => states.length > 0);
  expect(recovered.length).toBeGreaterThan(completed.length / 2);
  for (const { what, states } of recovered)
    expect(states.slice(0, 2), what).toEqual(['recovering', 'connected']);
}

/** Removes the ack support marker from handshakes, so that both peers behave like the reference. */
function withoutAcks(side: Side, { bytes, towards }: PassingFrame): FrameAction {
  const { streamId, body } = decodeFrame(bytes);
  if (side !== 'harnessSide' || towards !== 'relay' || body.kind !== 'handshake') return 'pass';
  return [encodeFrame({ streamId, body })];
}

test('a socket lost at any frame loses nothing, and sessions do not notice', async () => {
  const cases = atEveryPosition('cut at', LANES, () => 'cut');
  const completed = await runAll(await startFixture(), cases);
  expect(completed.length).toBeGreaterThan(cases.length / 2);
  expect(completed.filter(({ states }) => states.length > 0)).toEqual([]);
});

test('duplicated, delayed, replayed and dropped records lose nothing, and sessions do not notice', async () => {
  const cases = [
    ...inEveryLane('all twice', ({ bytes }) => [bytes, bytes]),
    ...inEveryLane('every other late', ({ index }) => (index % 2 === 0 ? 'swap' : 'pass')),
    ...inEveryLane('all followed by an older one', ({ bytes, index, earlier }) => {
      const older = earlier[Math.floor(index / 2)];
      return older !== undefined && isRecord({ bytes: older }) ? [bytes, older] : 'pass';
    }),
    ...inEveryLane('every fourth lost', ({ index }) => (index % 4 === 0 ? [] : 'pass')),
  ];
  const completed = await runAll(await startFixture(), cases);
  expect(completed).toHaveLength(cases.length);
  expect(completed.filter(({ states }) => states.length > 0)).toEqual([]);
});

test('a tampered record ends the stream, and the session recovers over another', async () => {
  const cases = atEveryPosition('tampered', HARNESS_LANES, tampered);
  const completed = await runAll(await startFixture(), cases);
  expect(completed.length).toBeGreaterThan(cases.length / 2);
  expectRecovered(completed);
});

test('truncated frames lose nothing', async () => {
  // A lost handshake takes until its timeout.
  const cases = atEveryPosition('truncated', LANES, (frame) =>
    kindOf(frame) === 'handshake' ? 'pass' : [frame.bytes.subarray(0, frame.bytes.length / 2)],
  );
  const completed = await runAll(await startFixture(), cases);
  expect(completed.length).toBeGreaterThan(cases.length / 2);
});

test('without acks a lost socket or a damaged record ends the stream, and the session recovers over another', async () => {
  const cases = [
    ...atEveryPosition('cut at', LANES, () => 'cut'),
    ...atEveryPosition('tampered', HARNESS_LANES, tampered),
  ].filter((_, index) => index % 3 === 0);
  const completed = await runAll(await startFixture(), cases, withoutAcks);
  expect(completed.length).toBeGreaterThan(cases.length / 2);
  expectRecovered(completed);
});

test('a killed and restarted relay loses nothing', async () => {
  const fixture = await FaultFixture.open();
  const folder = relayFolder();
  const node = await startTarget(fixture, folder);
  const restart = async () => {
    await node.stop('SIGKILL');
    await startTarget(fixture, folder);
  };
  const { states } = await fixture.runSession(fixture.environment().id, { printing: restart });
  expect(states).toEqual([]);
});

test('sessions move to another node when their node drains, and lose nothing', async () => {
  const { fixture, nodes } = await startFleet();
  const [first] = nodes as [RelayNode];
  const { states } = await fixture.runSession(fixture.environment().id, {
    printing: async () => {
      expect(await first.stop('SIGTERM')).toBe(0);
    },
  });
  expect(states).toEqual([]);
});

test('sessions continue while the store is gone, and lost sockets reconnect afterwards', async () => {
  const { fixture, redis } = await startFleet();
  const { states } = await fixture.runSession(fixture.environment().id, {
    started: () => redis.stop(),
    printing: async () => {
      fixture.executorSide.cut();
      await waitFor('a refusal', () => fixture.executorSide.refusals.includes(503));
      await redis.start();
    },
  });
  expect(states).toEqual([]);
});

/** Starts two nodes with a shared store. Executors use the first available node; harnesses use the node in their URL. */
async function startFleet() {
  const redis = await RedisServer.start();
  const folder = relayFolder();
  const fixture = await FaultFixture.open();
  const nodes: RelayNode[] = [];
  const targets: string[] = [];
  for (let index = 0; index < 2; index++) {
    const nodeSide = await RelayFrameProxy.open();
    onTestFinished(() => nodeSide.close());
    const urls = ['--public-url', fixture.executorSide.url, '--node-url', nodeSide.url];
    const { node, url } = await startListening(folder, ...urls, '--store', redis.url);
    nodeSide.targets = [url];
    targets.push(url);
    nodes.push(node);
  }
  for (const side of SIDES) fixture[side].targets = targets;
  return { fixture, redis, nodes };
}
