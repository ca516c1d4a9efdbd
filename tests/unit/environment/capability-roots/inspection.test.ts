import { afterEach, beforeEach, expect, it } from 'vitest';
import { inspectRoots } from '../../../../src/environment/capability-roots/inspection.ts';
import type { Environment } from '../../../../src/environment/environment.ts';
import { FakeConnector, misconfigured, settle } from '../fake-connector.ts';
import { FakeWorld, rootIn } from './support.ts';

let world: FakeWorld;
beforeEach(() => {
  world = new FakeWorld();
});
afterEach(() => world.manager.dispose());

function inspect(ids: readonly string[], captured?: ReadonlyMap<string, Environment | null>) {
  const roots = ids.map((id, index) => rootIn(id, `r${index}`));
  return inspectRoots<Environment>({ roots, registry: world.manager, ...(captured && { captured }) });
}

it('finds the roots of ready environments', async () => {
  const { environment } = world.add('up', FakeConnector.up());
  await settle();
  expect(inspect(['up'])).toEqual({ roots: [{ root: rootIn('up', 'r0'), environment }], warnings: [] });
});

it('names each root of an environment that does not exist', () => {
  expect(inspect(['no', 'no'])).toEqual({
    roots: [],
    warnings: [
      "capability root 'r0' needs environment 'no', which does not exist",
      "capability root 'r1' needs environment 'no', which does not exist",
    ],
  });
});

it('warns once of an environment that has failed', async () => {
  const connector = new FakeConnector();
  connector.respond = (attempt) => attempt.fail(misconfigured());
  world.add('down', connector);
  await settle();
  expect(inspect(['down', 'down'])).toEqual({
    roots: [],
    warnings: [expect.stringMatching(/^environment 'down' has failed: .*no such scheme/)],
  });
});

it('does not warn of starting or recovering environments, and starts none', async () => {
  const lazy = world.add('lazy', new FakeConnector({ eager: false })).connector;
  world.add('starting');
  const recovering = world.add('recovering', FakeConnector.up()).connector;
  await settle();
  recovering.last.client.become('recovering');
  expect(inspect(['lazy', 'starting', 'recovering'])).toEqual({ roots: [], warnings: [] });
  await settle();
  expect(lazy.attempts).toHaveLength(0);
});

it("uses a thread's own handles and skips starting environments", async () => {
  const { environment: old } = world.add('worker', FakeConnector.up());
  old.hold();
  world.add('other', FakeConnector.up());
  await settle();
  world.add('worker', FakeConnector.up());
  await settle();
  const captured = new Map([
    ['worker', old],
    ['other', null],
  ]);
  expect(inspect(['worker', 'other'], captured)).toEqual({
    roots: [{ root: rootIn('worker', 'r0'), environment: old }],
    warnings: [],
  });
});
