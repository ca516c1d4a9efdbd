import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { Revocations } from '../../../../src/listener/revocations.ts';
import { createLogger } from '../../../../src/observability/log.ts';
import { Seal } from '../../../../src/relay/service/access/sealed-text.ts';
import { Tickets } from '../../../../src/relay/service/access/tickets.ts';
import { RequestBudget } from '../../../../src/relay/service/http/calls.ts';
import { Tenants } from '../../../../src/relay/service/http/tenants.ts';
import { Upgrades } from '../../../../src/relay/service/http/upgrades.ts';
import { RelayMetrics } from '../../../../src/relay/service/records/relay-metrics.ts';
import { RelayRecords } from '../../../../src/relay/service/records/relay-records.ts';
import { Rendezvous } from '../../../../src/relay/service/rendezvous/rendezvous.ts';
import { MemoryStore } from '../../../../src/relay/service/store/memory-store.ts';
import type { Lease } from '../../../../src/relay/service/store/store.ts';
import { SECRET, someKey } from './relay-fixture.ts';

/** A store that calls back before it grants a lease. */
class SlowStore extends MemoryStore {
  meanwhile = async () => {};

  override async claim(...request: Parameters<MemoryStore['claim']>): Promise<Lease | null> {
    const lease = await super.claim(...request);
    await this.meanwhile();
    return lease;
  }
}

test('refuses a token that is revoked while its executor connects', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'relay-revoked-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const revokedFile = join(folder, 'revoked');
  writeFileSync(revokedFile, '');
  const revocations = await Revocations.open(revokedFile, '--revoked-file');
  const tickets = new Tickets(new Seal(SECRET), revocations, Date.now);
  const store = new SlowStore();
  const log = createLogger('error', () => {});
  const rendezvous = new Rendezvous({
    store,
    node: () => ({ id: 'node', url: 'ws://node' }),
    records: new RelayRecords(new RelayMetrics(() => ({}) as never), log, null),
    log,
  });
  const budget = new RequestBudget(() => 0);
  const upgrades = new Upgrades({ tickets, rendezvous, store, budget, tenants: new Tenants(100) });
  const socket = new PassThrough();
  const registered = await store.register('env-1', someKey());
  if (registered.outcome === 'superseded')
    throw new Error('the environment is new, so it has no replaced executor');
  const { registrationId } = registered;
  const ticket = { role: 'executor', environmentId: 'env-1', registrationId, tokenId: 'lost' } as const;
  const text = new URL(tickets.url('ws://relay', ticket, null)).searchParams.get('ticket')!;

  const admission = await upgrades.admit('env-1', text, socket);
  admission.abandon();
  store.meanwhile = async () => {
    writeFileSync(revokedFile, 'lost\n');
    await revocations.reload();
  };
  await expect(upgrades.admit('env-1', text, socket)).rejects.toThrow('the URL is revoked');
  expect(await store.find('env-1')).toMatchObject({ node: null });
});
