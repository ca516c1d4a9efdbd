import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import {
  AUTHORIZATION_MS,
  LEASE_MS,
  MAX_AUTHORIZATIONS,
  MAX_AUTHORIZATIONS_PER_ENVIRONMENT,
  MAX_ENVIRONMENTS,
  MAX_SUPERSEDED_KEYS,
} from '../../../../src/relay/service/limits.ts';
import { MemoryStore } from '../../../../src/relay/service/store/memory-store.ts';
import { openStore } from '../../../../src/relay/service/store/open-store.ts';
import { PendingGrants } from '../../../../src/relay/service/store/pending-grants.ts';
import { type Lease, type Store, StoreUnavailableError } from '../../../../src/relay/service/store/store.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RedisServer } from './redis-server.ts';
import { registrationOf, someKey } from './relay-fixture.ts';

const quiet = createLogger('error', () => {});
const NODE = { id: 'node-1', url: 'ws://one' };
const OTHER_NODE = { id: 'node-2', url: 'ws://two' };
const GRANT = { registrationId: 'r', harnessKeyHash: 'h' };

async function open(kind: string): Promise<Store> {
  const setting = kind === 'redis' ? (await RedisServer.start()).url : kind;
  const store = await openStore(setting, quiet);
  onTestFinished(() => store.close());
  return store;
}

async function claim(store: Store, registrationId: string, node = NODE): Promise<Lease> {
  const lease = await store.claim('e', registrationId, node);
  if (lease === null) throw new Error('no lease');
  return lease;
}

const KINDS = ['memory', 'redis'] as const;

test.each(KINDS)('%s: registers a new, a returning and a replacing executor', async (kind) => {
  const store = await open(kind);
  const keys = [someKey(), someKey(), someKey()] as const;
  const first = await store.register('e', keys[0]);
  expect(first.outcome).toBe('new');
  expect(await store.register('e', keys[0])).toEqual({ ...first, outcome: 'returned' });
  expect((await store.register('e', keys[1])).outcome).toBe('replaced');
  expect((await store.register('e', keys[2])).outcome).toBe('replaced');
  for (const key of [keys[0], keys[1]]) {
    expect(await store.register('e', key)).toEqual({ outcome: 'superseded' });
  }
  expect((await store.register('another', keys[0])).outcome).toBe('new');
});

test.each(KINDS)('%s: keeps a limited number of replaced executors', async (kind) => {
  const store = await open(kind);
  const keys = Array.from({ length: MAX_SUPERSEDED_KEYS + 2 }, someKey);
  for (const key of keys) await store.register('e', key);
  expect(await store.register('e', keys[1]!)).toEqual({ outcome: 'superseded' });
  expect((await store.register('e', keys[0]!)).outcome).toBe('replaced');
});

test.each(KINDS)('%s: the newest claim ends older leases', async (kind) => {
  const store = await open(kind);
  expect(await store.find('e')).toBeNull();
  const key = someKey();
  const registrationId = await registrationOf(store, key);
  expect(await store.find('e')).toMatchObject({ registration: { registrationId }, node: null });
  expect(await store.claim('e', 'another', NODE)).toBeNull();
  expect(await store.claim('unknown', registrationId, NODE)).toBeNull();

  const first = await claim(store, registrationId);
  expect(first.registration).toEqual((await store.find('e'))?.registration);
  expect(first.registration.executorKey).toEqual(key.toJSON());
  const second = await claim(store, registrationId, OTHER_NODE);
  expect(second.epoch).toBeGreaterThan(first.epoch);
  expect((await store.find('e'))?.node).toEqual(OTHER_NODE);
  expect([await store.renew(first), await store.renew(second)]).toEqual([false, true]);
  await store.release(first);
  expect((await store.find('e'))?.node).toEqual(OTHER_NODE);
  await store.release(second);
  expect((await store.find('e'))?.node).toBeNull();
});

test.each(KINDS)('%s: a new registration ends the previous lease', async (kind) => {
  const store = await open(kind);
  const lease = await claim(store, await registrationOf(store));
  await registrationOf(store);
  expect((await store.find('e'))?.node).toBeNull();
  expect(await store.renew(lease)).toBe(false);
  expect((await store.find('e'))?.node).toBeNull();
});

test.each(KINDS)('%s: renews an expired lease if there is no newer claim', async (kind) => {
  const store = await open(kind);
  const lease = await claim(store, await registrationOf(store));
  await store.release(lease);
  expect(await store.renew(lease)).toBe(true);
  expect((await store.find('e'))?.node).toEqual(NODE);
});

test.each(KINDS)('%s: an authorization works once, and only for its environment', async (kind) => {
  const store = await open(kind);
  await store.grant('e', 'authorization', GRANT);
  expect(await store.take('another', 'authorization')).toBeNull();
  expect(await store.take('e', 'another')).toBeNull();
  const taken = await Promise.all(Array.from({ length: 10 }, () => store.take('e', 'authorization')));
  expect(taken.filter((grant) => grant !== null)).toMatchObject([GRANT]);
});

test('memory: leases and authorizations expire', async () => {
  let nowMs = 0;
  const store = new MemoryStore(null, () => nowMs);
  await claim(store, await registrationOf(store));
  await store.grant('e', 'one', GRANT);
  await store.grant('e', 'two', GRANT);
  nowMs = AUTHORIZATION_MS - 1;
  expect(await store.take('e', 'one')).toMatchObject(GRANT);
  nowMs = AUTHORIZATION_MS;
  expect(await store.take('e', 'two')).toBeNull();
  nowMs = LEASE_MS - 1;
  expect((await store.find('e'))?.node).toEqual(NODE);
  nowMs = LEASE_MS;
  expect((await store.find('e'))?.node).toBeNull();
});

test('memory: an environment with too many authorizations loses its oldest, and no other environment does', async () => {
  const store = new MemoryStore(null, () => 0);
  await store.grant('other', '0', GRANT);
  for (let index = 0; index <= MAX_AUTHORIZATIONS_PER_ENVIRONMENT; index++) {
    await store.grant('e', `${index}`, GRANT);
  }
  expect(await store.take('e', '0')).toBeNull();
  expect(await store.take('e', '1')).toMatchObject(GRANT);
  expect(await store.take('e', `${MAX_AUTHORIZATIONS_PER_ENVIRONMENT}`)).toMatchObject(GRANT);
  expect(await store.take('other', '0')).toMatchObject(GRANT);
});

test('memory: of too many authorizations expired ones go first, then the oldest of the environment with the most', async () => {
  let nowMs = 0;
  const grants = new PendingGrants(() => nowMs);
  const most = MAX_AUTHORIZATIONS_PER_ENVIRONMENT;
  const fill = (name: string) => {
    for (let index = 0; index < MAX_AUTHORIZATIONS; index++) {
      // One environment has 1,024, the others fewer.
      const environmentId = index < most ? name : `${name}-${index % 100}`;
      grants.add(environmentId, `${index}`, GRANT);
    }
  };
  fill('busy');
  grants.add('new', 'more', GRANT);
  expect([grants.take('busy', '0'), grants.take('busy', '1')]).toMatchObject([null, GRANT]);
  expect(grants.take(`busy-${most % 100}`, `${most}`)).toMatchObject(GRANT);
  expect(grants.take('new', 'more')).toMatchObject(GRANT);
  nowMs = AUTHORIZATION_MS;
  fill('next');
  expect(grants.take('next', '0')).toMatchObject(GRANT);
  expect(grants.take('busy', '2')).toBeNull();
});

test('memory: evicts the environment unused longest, unless its executor is connected', async () => {
  const key = someKey();
  const store = new MemoryStore();
  const connected = await registrationOf(store, key, 'e');
  await claim(store, connected);
  for (let index = 1; index < MAX_ENVIRONMENTS; index++) await registrationOf(store, key, `${index}`);
  await registrationOf(store, key, 'more');
  expect(await store.find('e')).not.toBeNull();
  expect(await store.find('1')).toBeNull();
  expect(await store.find('2')).not.toBeNull();
});

test('memory: refuses an environment when all executors are connected', async () => {
  const key = someKey();
  const store = new MemoryStore();
  for (let index = 0; index < MAX_ENVIRONMENTS; index++) {
    const registrationId = await registrationOf(store, key, `${index}`);
    await store.claim(`${index}`, registrationId, NODE);
  }
  await expect(store.register('more', key)).rejects.toThrow(StoreUnavailableError);
});

test('redis: all keys have an expiry', async () => {
  const redis = await RedisServer.start();
  const store = await openStore(redis.url, quiet);
  onTestFinished(() => store.close());
  await registrationOf(store);
  const registrationId = await registrationOf(store);
  await claim(store, registrationId);
  await store.grant('e', 'authorization', GRANT);
  const { createClient } = await import('@redis/client');
  const client = createClient({ url: redis.url });
  await client.connect();
  onTestFinished(() => client.destroy());
  const keys = await client.keys('*');
  expect(keys).toHaveLength(4);
  for (const key of keys) {
    expect(await client.pTTL(key)).toBeGreaterThan(0);
    expect(key).not.toContain('authorization:authorization');
  }
});

test('redis: renewals restore lost data, and the newest lease wins', async () => {
  const redis = await RedisServer.start();
  const store = await openStore(redis.url, quiet);
  onTestFinished(() => store.close());
  const registrationId = await registrationOf(store);
  const first = await claim(store, registrationId);
  const second = await claim(store, registrationId, OTHER_NODE);
  await redis.stop();
  await waitFor('the loss to be noticed', () => !store.available);
  await redis.start();
  await waitFor('the store to be back', () => store.available);
  expect(await store.find('e')).toBeNull();
  expect(await store.renew(first)).toBe(true);
  expect(await store.renew(second)).toBe(true);
  expect(await store.renew(first)).toBe(false);
  expect(await store.find('e')).toMatchObject({ registration: { registrationId }, node: OTHER_NODE });
});

test('redis: a registration after a loss of data is newer than any earlier claim', async () => {
  const redis = await RedisServer.start();
  const store = await openStore(redis.url, quiet);
  onTestFinished(() => store.close());
  const lease = await claim(store, await registrationOf(store));
  await redis.stop();
  await redis.start();
  await waitFor('the store to be back', () => store.available);
  await registrationOf(store);
  expect(await store.renew(lease)).toBe(false);
});

test('redis: fails fast when the server is gone, and after a timeout when it hangs', async () => {
  const redis = await RedisServer.start();
  const store = await openStore(redis.url, quiet);
  onTestFinished(() => store.close());
  redis.freeze();
  await expect(store.find('e')).rejects.toThrow(StoreUnavailableError);
  redis.thaw();
  await waitFor('an answer', () =>
    store.find('e').then(
      () => true,
      () => false,
    ),
  );
  await redis.stop();
  await waitFor('the loss to be noticed', () => !store.available);
  await expect(store.find('e')).rejects.toThrow(StoreUnavailableError);
});

test('redis: logs refused commands at a limited rate', async () => {
  const redis = await RedisServer.start();
  const errors: string[] = [];
  const store = await openStore(
    redis.url,
    createLogger('error', (line) => errors.push(line)),
  );
  onTestFinished(() => store.close());
  await redis.forbid('eval');
  for (let index = 0; index < 3; index++) {
    await expect(store.find('e')).rejects.toThrow(StoreUnavailableError);
  }
  expect(errors).toEqual([expect.stringMatching(/a command of the store failed.*NOPERM/)]);
});

test('redis: becomes available when the server starts later', async () => {
  const redis = await RedisServer.start();
  await redis.stop();
  const store = await openStore(redis.url, quiet);
  onTestFinished(() => store.close());
  expect(store.available).toBe(false);
  await redis.start();
  await waitFor('the store', () => store.available);
  expect(await store.find('e')).toBeNull();
});

const INVALID_STORES = ['', 'disk', 'file://relative', 'http://x', 'file:///a%2Fb', 'file:///100%/b'];

test.each(INVALID_STORES)('rejects %j as a store', async (setting) => {
  await expect(openStore(setting, quiet)).rejects.toThrow(/--store is not/);
});

test('redis: the error for an invalid URL does not contain its password', async () => {
  const error = await openStore('redis://user:pass word@:x', quiet).catch((failure: Error) => failure);
  expect(error).toBeInstanceOf(Error);
  expect((error as Error).message).not.toContain('pass word');
});
