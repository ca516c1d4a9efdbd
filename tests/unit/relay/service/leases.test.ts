import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import {
  LEASE_MS,
  LEASE_RENEWAL_BATCH,
  LEASE_RENEWAL_MS,
  LEASE_RETRY_MS,
} from '../../../../src/relay/service/limits.ts';
import { Leases } from '../../../../src/relay/service/rendezvous/leases.ts';
import { MemoryStore } from '../../../../src/relay/service/store/memory-store.ts';
import { type Lease, StoreUnavailableError } from '../../../../src/relay/service/store/store.ts';
import { someKey } from './relay-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A store that can be made unreachable. */
class TestStore extends MemoryStore {
  away = false;
  renewals = 0;
  underWay = 0;
  mostUnderWay = 0;
  #returned: () => void = () => {};

  constructor() {
    super(null, () => vi.getMockedSystemTime()?.getTime() ?? 0);
  }

  override onReturn(listener?: () => void): void {
    if (listener !== undefined) this.#returned = listener;
  }

  comeBack(): void {
    this.away = false;
    this.#returned();
  }

  override async renew(lease: Lease): Promise<boolean> {
    this.renewals++;
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay);
    await null;
    this.underWay--;
    if (this.away) throw new StoreUnavailableError('away');
    return await super.renew(lease);
  }

  override async release(lease: Lease): Promise<void> {
    if (this.away) throw new StoreUnavailableError('away');
    await super.release(lease);
  }
}

const NODE = { id: 'n', url: 'ws://n' };

async function held(environmentId = 'e') {
  const store = new TestStore();
  const leases = new Leases(
    store,
    () => NODE,
    createLogger('error', () => {}),
  );
  const result = await store.register(environmentId, someKey());
  if (result.outcome === 'superseded') throw new Error('superseded');
  const lease = (await leases.claim(environmentId, result.registrationId))!;
  const lost = vi.fn();
  leases.hold(lease, lost);
  const isOnline = async () => (await store.find(environmentId))?.node !== null;
  return { store, leases, lease, lost, isOnline, registrationId: result.registrationId };
}

test('renews a lease while it is held', async () => {
  const { leases, lease, lost, isOnline } = await held();
  await vi.advanceTimersByTimeAsync(10 * LEASE_MS);
  expect(await isOnline()).toBe(true);
  await leases.release(lease);
  expect(await isOnline()).toBe(false);
  await vi.advanceTimersByTimeAsync(10 * LEASE_MS);
  expect([await isOnline(), lost.mock.calls.length, leases.count]).toEqual([false, 0, 0]);
  leases.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('reports the loss of a lease to a newer claim once', async () => {
  const { store, lost, registrationId } = await held();
  await store.claim('e', registrationId, { id: 'other', url: 'ws://other' });
  await vi.advanceTimersByTimeAsync(LEASE_RENEWAL_MS);
  expect(lost).toHaveBeenCalledOnce();
  await vi.advanceTimersByTimeAsync(LEASE_MS);
  expect(lost).toHaveBeenCalledOnce();
});

test('keeps a lease while the store is unreachable, and renews it afterwards', async () => {
  const { store, lost, isOnline } = await held();
  store.away = true;
  await vi.advanceTimersByTimeAsync(2 * LEASE_MS);
  expect(lost).not.toHaveBeenCalled();
  expect(await isOnline()).toBe(false);
  store.away = false;
  await vi.advanceTimersByTimeAsync(LEASE_RETRY_MS);
  expect(await isOnline()).toBe(true);
});

test('renews immediately when the store returns, with a single timer', async () => {
  const { store, isOnline } = await held();
  store.away = true;
  await vi.advanceTimersByTimeAsync(2 * LEASE_MS);
  store.comeBack();
  await vi.advanceTimersByTimeAsync(0);
  expect(await isOnline()).toBe(true);
  for (let count = 0; count < 5; count++) store.comeBack();
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(1);
});

test('loses to a claim that another node made while the store was unreachable', async () => {
  const { store, lost, registrationId, isOnline } = await held();
  store.away = true;
  await vi.advanceTimersByTimeAsync(LEASE_RENEWAL_MS);
  await store.claim('e', registrationId, { id: 'other', url: 'ws://other' });
  store.comeBack();
  await vi.advanceTimersByTimeAsync(0);
  expect(lost).toHaveBeenCalledOnce();
  expect(await isOnline()).toBe(true);
});

test('lets a lease expire when the store is unreachable at its release', async () => {
  const { store, leases, lease, isOnline } = await held();
  store.away = true;
  await leases.release(lease);
  store.away = false;
  expect(await isOnline()).toBe(true);
  await vi.advanceTimersByTimeAsync(LEASE_MS);
  expect(await isOnline()).toBe(false);
});

test('releases a lease again when a renewal was running', async () => {
  const { leases, lease, isOnline } = await held();
  const renewing = leases.renewAll();
  const released = leases.release(lease);
  await Promise.all([renewing, released]);
  expect(await isOnline()).toBe(false);
});

test('renews many leases in batches', async () => {
  const { store, leases } = await held();
  for (let index = 0; index < 2 * LEASE_RENEWAL_BATCH; index++) {
    const result = await store.register(`${index}`, someKey());
    if (result.outcome === 'superseded') throw new Error('superseded');
    leases.hold((await leases.claim(`${index}`, result.registrationId))!, () => {});
  }
  await leases.renewAll();
  expect([store.renewals, store.mostUnderWay]).toEqual([2 * LEASE_RENEWAL_BATCH + 1, LEASE_RENEWAL_BATCH]);
});
