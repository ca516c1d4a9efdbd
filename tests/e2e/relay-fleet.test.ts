import { expect, test } from 'vitest';
import { connectFrameSocket } from '../../src/transport/frame-socket.ts';
import { UpgradeRefusedError } from '../../src/transport/open-websocket.ts';
import { waitFor } from '../support/wait-for.ts';
import { RedisServer } from '../unit/relay/service/redis-server.ts';
import { Environment, someKey, TestPeer } from '../unit/relay/service/relay-fixture.ts';
import { type RelayNode, relayFolder, startNode } from './relay-nodes.ts';

async function startFleet(count: number) {
  const redis = await RedisServer.start();
  const folder = relayFolder();
  const nodes: RelayNode[] = [];
  for (let index = 0; index < count; index++) nodes.push(await startNode(folder, '--store', redis.url));
  return { redis, nodes, folder };
}

/** Replaces the node in a URL, like a DNS name for all nodes does. */
function at(node: RelayNode, url: string): string {
  return url.replace(new URL(url).host, new URL(node.url).host);
}

function hostOf(url: string): string {
  return new URL(url).host;
}

/** Expects that frames pass in both directions. */
async function talk(executor: TestPeer, harness: TestPeer, streamId: string): Promise<void> {
  const [before, answered] = [executor.received.length, harness.received.length];
  harness.record(streamId, 0);
  await executor.hasReceived(before + 1);
  executor.record(streamId, 0);
  await harness.hasReceived(answered + 1);
}

async function statusOf(url: string): Promise<number> {
  const error = await connectFrameSocket(url).then(
    (socket) => socket.drop(),
    (failure: unknown) => failure,
  );
  return error instanceof UpgradeRefusedError ? error.status : 101;
}

test('three nodes: register at one, connect at another, request at the third, validate at any', async () => {
  const { nodes } = await startFleet(3);
  const [first, second, third] = nodes as [RelayNode, RelayNode, RelayNode];
  const key = someKey();
  const registered = (await new Environment(first.url).register(someKey())).body;
  const executor = await TestPeer.connect(at(second, registered.url));

  const { body } = await new Environment(third.url).connect(key);
  expect(hostOf(body.url)).toBe(hostOf(second.url));
  expect(body.executor_registration_id).toBe(registered.executor_registration_id);
  await talk(executor, await TestPeer.connect(body.url), 's');
  // A harness ticket is valid only at the node of its executor.
  expect(await statusOf(at(third, body.url))).toBe(401);

  const validate = (node: RelayNode) =>
    new Environment(node.url).validate(
      registered.executor_registration_id,
      key,
      body.harness_key_authorization,
    );
  const answers = await Promise.all(nodes.map(validate));
  expect(answers.filter(({ body: { valid } }) => valid)).toHaveLength(1);
});

test('finds an executor that reconnects at another node, and refuses replaced ones at all nodes', async () => {
  const { nodes } = await startFleet(2);
  const [first, second] = nodes as [RelayNode, RelayNode];
  const [environment, elsewhere] = [new Environment(first.url), new Environment(second.url)];
  const key = someKey();
  const { url } = (await environment.register(key)).body;
  await TestPeer.connect(url);
  await TestPeer.connect(at(second, url));
  expect(hostOf((await environment.connect(someKey())).body.url)).toBe(hostOf(second.url));
  expect((await elsewhere.register(someKey())).status).toBe(200);
  expect((await environment.connect(someKey())).status).toBe(409);
  expect(await statusOf(url)).toBe(401);
  expect((await environment.register(key)).body.error.code).toBe('executor_superseded');
});

test('executor and harness reconnect at another node after theirs is killed', async () => {
  const { nodes } = await startFleet(2);
  const [first, second] = nodes as [RelayNode, RelayNode];
  const { url } = (await new Environment(first.url).register(someKey())).body;
  const executor = await TestPeer.connect(url);
  const harness = await new Environment(first.url).harness();
  await talk(executor, harness, 's');
  await first.stop('SIGKILL');
  await Promise.all([executor.hasClosed(), harness.hasClosed()]);

  const survivor = new Environment(second.url);
  const back = await TestPeer.connect(at(second, url));
  await talk(back, await survivor.harness(), 's2');
});

test('a draining node closes its sockets, releases its leases and exits with 0', async () => {
  const { nodes } = await startFleet(2);
  const [first, second] = nodes as [RelayNode, RelayNode];
  const survivor = new Environment(second.url);
  const { url } = (await new Environment(first.url).register(someKey())).body;
  const executor = await TestPeer.connect(url);
  const harness = await survivor.harness();
  await talk(executor, harness, 's');
  expect(await first.stop('SIGTERM')).toBe(0);
  expect(executor.closed).toMatchObject({ code: 1001, reason: expect.stringContaining('SIGTERM') });
  expect(harness.closed).not.toBeNull();
  expect((await survivor.connect(someKey())).status).toBe(409);
  await talk(await TestPeer.connect(at(second, url)), await survivor.harness(), 's2');
});

test('without its store a relay serves connected peers, answers 503 to others, and recovers', async () => {
  const { nodes, redis } = await startFleet(2);
  const [first, second] = nodes as [RelayNode, RelayNode];
  const environment = new Environment(first.url);
  const key = someKey();
  const { url, executor_registration_id: registrationId } = (await environment.register(key)).body;
  const executor = await TestPeer.connect(url);
  const harness = await environment.harness();
  await talk(executor, harness, 's');
  const late = (await environment.connect(someKey())).body.url;

  await redis.stop();
  const ready = async (node: RelayNode) => (await fetch(`${node.url}/readyz`)).status;
  for (const node of nodes) await waitFor('the loss', async () => (await ready(node)) === 503);
  await talk(executor, harness, 's');
  const refused = { status: 503, body: { error: { code: 'store_unavailable' } } };
  expect(await environment.connect(someKey())).toMatchObject(refused);
  expect(await new Environment(second.url).register(key)).toMatchObject(refused);
  expect(await environment.validate(registrationId, key, 'x')).toMatchObject(refused);
  expect(await statusOf(at(second, url))).toBe(503);
  // A harness with an earlier URL does not need the store.
  await talk(executor, await TestPeer.connect(late), 'late');

  // The store restarts without data, and the nodes restore it.
  await redis.start();
  const elsewhere = new Environment(second.url);
  await waitFor('the recovery', async () => (await elsewhere.connect(someKey())).status === 200);
  const { body } = await elsewhere.connect(someKey());
  expect(body.executor_registration_id).toBe(registrationId);
  await talk(executor, await TestPeer.connect(body.url), 's3');
  expect([executor.closed, harness.closed]).toEqual([null, null]);
  expect((await elsewhere.register(key)).body.executor_registration_id).toBe(registrationId);
});

test('closes the older of two sockets of one executor at the next lease renewal', async () => {
  const { nodes, redis } = await startFleet(2);
  const [first, second] = nodes as [RelayNode, RelayNode];
  const { url } = (await new Environment(first.url).register(someKey())).body;
  const older = await TestPeer.connect(url);
  const newer = await TestPeer.connect(at(second, url));
  // A node renews its leases when it reconnects to the store.
  await redis.cutClients();
  expect((await older.hasClosed()).reason).toMatch(/newer connection/);
  const { body } = await new Environment(first.url).connect(someKey());
  expect(hostOf(body.url)).toBe(hostOf(second.url));
  expect(newer.closed).toBeNull();
});
