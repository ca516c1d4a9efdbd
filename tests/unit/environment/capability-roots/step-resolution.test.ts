import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attachmentRoots } from '../../../../src/environment/capability-roots/attachment-roots.ts';
import type { SelectedCapabilityRoot } from '../../../../src/environment/capability-roots/selected-root.ts';
import { resolveStepRoots } from '../../../../src/environment/capability-roots/step-resolution.ts';
import {
  restoreSelection,
  selectionMetadata,
} from '../../../../src/environment/capability-roots/thread-record.ts';
import type { Environment } from '../../../../src/environment/environment.ts';
import { MAX_ATTACHMENT_ROOTS } from '../../../../src/environment/limits.ts';
import type { StepSnapshot } from '../../../../src/environment/turns/step-snapshot.ts';
import { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, refused, settle } from '../fake-connector.ts';
import { FakeWorld, rootIn } from './support.ts';

let world: FakeWorld;
let thread: ThreadEnvironments;
beforeEach(() => {
  world = new FakeWorld();
  thread = new ThreadEnvironments(world.manager);
});
afterEach(async () => {
  thread.dispose();
  await world.manager.dispose();
});

const plugin = rootIn('worker', 'plugin@1');
const here = { cwd: 'file:///w' };

function resolve(
  threadRoots: readonly SelectedCapabilityRoot[],
  captured: ReadonlyMap<string, Environment | null> = new Map(),
) {
  return resolveStepRoots<Environment>({ threadRoots, captured, registry: world.manager });
}

/** A connector that fails until the test enables it. */
function broken(): FakeConnector {
  const connector = new FakeConnector();
  connector.respond = (attempt) => attempt.fail(refused());
  return connector;
}

/** A step that does not wait for environments. */
function begin(): Promise<StepSnapshot> {
  return thread.beginTurn({ wait: false });
}

describe('the three steps of a thread that selects plugin@1 in worker', () => {
  it('are unavailable, then use the captured handle, and keep it', async () => {
    const { environment: first, connector } = world.add('worker');
    thread.select([{ environmentId: 'worker', ...here }]);

    const one = await begin();
    expect(one.captured.get('worker')).toBeNull();
    expect(await resolve([plugin], one.captured)).toEqual([]);

    connector.last.succeed();
    await settle();
    const two = one.refresh();
    const second = await resolve([plugin], two.captured);
    expect(second).toEqual([{ root: plugin, environment: first }]);

    const { environment: fresh, connector: freshConnector } = world.add('worker');
    expect(second[0]!.environment).toBe(first);
    expect((await resolve([plugin], two.captured))[0]!.environment).toBe(first);
    expect((await resolve([plugin], two.refresh().captured))[0]!.environment).toBe(first);

    freshConnector.last.succeed();
    await settle();
    const three = await thread.beginTurn();
    expect((await resolve([plugin], three.captured))[0]!.environment).toBe(fresh);
  });
});

describe('resolution for a step', () => {
  it('skips an environment that was captured as starting, even if its handle is ready now', async () => {
    world.add('worker', FakeConnector.up());
    await settle();
    expect(await resolve([plugin], new Map([['worker', null]]))).toEqual([]);
  });

  it('uses the captured handle instead of its replacement', async () => {
    const { environment: a } = world.add('worker', FakeConnector.up());
    await settle();
    const { environment: b } = world.add('worker', FakeConnector.up());
    await settle();
    const [resolved] = await resolve([plugin], new Map([['worker', a]]));
    expect(resolved!.environment).toBe(a);
    expect(resolved!.environment).not.toBe(b);
  });

  it('treats a captured handle as ready during a recovery', async () => {
    const { environment, connector } = world.add('worker', FakeConnector.up());
    await settle();
    connector.last.client.become('recovering');
    expect(await resolve([plugin], new Map([['worker', environment]]))).toHaveLength(1);
  });

  it('starts a lazy environment outside the turn for a later step', async () => {
    const { environment, connector } = world.add('worker', new FakeConnector({ eager: false }));
    expect(connector.attempts).toHaveLength(0);
    expect(await resolve([plugin])).toEqual([]);
    expect(connector.attempts).toHaveLength(1);
    connector.last.succeed();
    await settle();
    expect(await resolve([plugin])).toEqual([{ root: plugin, environment }]);
    expect(connector.attempts).toHaveLength(1);
  });

  it('skips missing and failed environments and keeps them selected', async () => {
    const connector = broken();
    world.add('worker', connector);
    await settle();
    const roots = [plugin, rootIn('nowhere', 'lost')];
    const metadata = selectionMetadata(roots) as Record<string, unknown>;
    for (let step = 0; step < 10; step++) expect(await resolve(restoreSelection(metadata))).toEqual([]);
    expect(restoreSelection(metadata)).toEqual(roots);
    expect(connector.attempts.length).toBeGreaterThan(1);
  });

  it('finds a root in the first step after its environment is ready', async () => {
    const { environment, connector } = world.add('worker');
    thread.select([{ environmentId: 'worker', ...here }]);
    const step = await begin();
    expect(await resolve([plugin], step.captured)).toEqual([]);
    connector.last.succeed();
    await settle();
    expect(await resolve([plugin], step.captured)).toEqual([]);
    expect(await resolve([plugin], step.refresh().captured)).toEqual([{ root: plugin, environment }]);
  });

  it('finds the roots of a resumed thread when its executor is back', async () => {
    const connector = broken();
    const { environment } = world.add('worker', connector);
    await settle();
    const metadata = JSON.parse(JSON.stringify(selectionMetadata([plugin])));
    expect(await resolve(restoreSelection(metadata))).toEqual([]);
    connector.respond = (attempt) => attempt.succeed();
    expect(await resolve(restoreSelection(metadata))).toEqual([{ root: plugin, environment }]);
  });

  it('looks each environment up once and keeps the order of the roots', async () => {
    const connector = broken();
    world.add('down', connector);
    world.add('up', FakeConnector.up());
    await settle();
    const attempts = connector.attempts.length;
    const roots = [rootIn('down', 'a'), rootIn('up', 'b'), rootIn('down', 'c'), rootIn('up', 'd')];
    expect((await resolve(roots)).map(({ root }) => root.id)).toEqual(['b', 'd']);
    expect(connector.attempts.length).toBe(attempts + 1);
  });

  it('reads no files and returns an immutable result', async () => {
    const { connector } = world.add('worker', FakeConnector.up());
    await settle();
    const touched: PropertyKey[] = [];
    connector.last.files = new Proxy({} as never, {
      get: (_, name) => touched.push(name),
    });
    const resolved = await resolve([plugin]);
    expect(touched).toEqual([]);
    expect(Object.isFrozen(resolved) && Object.isFrozen(resolved[0])).toBe(true);
  });

  it('ends when its caller aborts', async () => {
    const connector = broken();
    world.add('worker', connector);
    await settle();
    connector.respond = () => {};
    const abort = new AbortController();
    const step = resolveStepRoots<Environment>(
      { threadRoots: [plugin], captured: new Map(), registry: world.manager },
      { signal: abort.signal },
    );
    await settle();
    abort.abort();
    await expect(step).rejects.toMatchObject({ kind: 'aborted' });
  });

  it('continues without an environment that exceeds the time limit', async () => {
    const connector = broken();
    world.add('worker', connector);
    await settle();
    connector.respond = () => {};
    const step = resolveStepRoots<Environment>(
      { threadRoots: [plugin], captured: new Map(), registry: world.manager },
      { timeoutMs: 1 },
    );
    expect(await step).toEqual([]);
  });
});

describe('roots of attached environments', () => {
  let warnings: string[];
  beforeEach(async () => {
    warnings = [];
    for (const id of ['worker', 'other']) world.add(id, FakeConnector.up());
    await settle();
  });

  async function combined(
    threadRoots: readonly SelectedCapabilityRoot[],
    ...attachments: { configuredBy: 'thread' | 'owner'; roots: readonly SelectedCapabilityRoot[] }[]
  ): Promise<string[]> {
    const warn = (message: string) => warnings.push(message);
    const input = { threadRoots, attachments, captured: new Map(), registry: world.manager, warn };
    const resolved = await resolveStepRoots<Environment>(input);
    return resolved.map(({ root: { id, location } }) => `${id} ${location.environmentId} ${location.path}`);
  }

  it('follow those of the thread, in order', async () => {
    const owner = { configuredBy: 'owner' as const, roots: [rootIn('other', 'c'), rootIn('other', 'b')] };
    expect(
      await combined([rootIn('worker', 'z')], owner, {
        configuredBy: 'thread',
        roots: [rootIn('worker', 'a')],
      }),
    ).toEqual([
      'z worker file:///roots/z',
      'c other file:///roots/c',
      'b other file:///roots/b',
      'a worker file:///roots/a',
    ]);
    expect(warnings).toEqual([]);
  });

  it('refresh a root of the thread in the same environment, when the thread configures that', async () => {
    const moved = [rootIn('worker', 'a', '/new/a')];
    expect(await combined([rootIn('worker', 'a')], { configuredBy: 'thread', roots: moved })).toEqual([
      'a worker file:///new/a',
    ]);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['an owner configures it', 'owner', 'worker'],
    ['it is in another environment', 'thread', 'other'],
  ] as const)(
    'do not refresh a root when %s; the first one counts',
    async (_, configuredBy, environmentId) => {
      const moved = [rootIn(environmentId, 'a', '/new/a')];
      expect(await combined([rootIn('worker', 'a')], { configuredBy, roots: moved })).toEqual([
        'a worker file:///roots/a',
      ]);
      expect(warnings).toEqual(["capability root 'a' is selected at two locations; the first one is used"]);
    },
  );

  it('are limited in number', async () => {
    const roots = Array.from({ length: MAX_ATTACHMENT_ROOTS + 1 }, (_, index) =>
      rootIn('worker', `r${index}`),
    );
    const own = rootIn('worker', 'own');
    const ids = await combined([own], { configuredBy: 'owner', roots: [own, ...roots] });
    expect(ids).toHaveLength(1 + MAX_ATTACHMENT_ROOTS);
    expect(warnings).toEqual([expect.stringContaining(`'r${MAX_ATTACHMENT_ROOTS}' is left out`)]);
  });
});

describe('the roots of the environments of a step', () => {
  async function attached(config?: unknown) {
    const warnings: string[] = [];
    const source =
      config === undefined ? {} : { config: { source: 'owner' as const, value: Promise.resolve(config) } };
    thread.select([{ environmentId: 'worker', ...here, ...source }]);
    const step = await thread.beginTurn();
    return { attached: attachmentRoots(step.environments, (message) => warnings.push(message)), warnings };
  }

  it('come from the report of a provisioned environment', async () => {
    const native = { ...plugin, location: { ...plugin.location, path: '/roots/plugin@1' } };
    world.provision('worker', [native], FakeConnector.up());
    expect(await attached()).toEqual({
      attached: [{ configuredBy: 'thread', roots: [plugin] }],
      warnings: [],
    });
  });

  it('are none for other environments', async () => {
    world.add('worker', FakeConnector.up());
    expect((await attached()).attached).toEqual([{ configuredBy: 'thread', roots: [] }]);
  });

  it('come from the configuration of an owner', async () => {
    world.add('worker', FakeConnector.up());
    expect(await attached({ selectedCapabilityRoots: [plugin] })).toEqual({
      attached: [{ configuredBy: 'owner', roots: [plugin] }],
      warnings: [],
    });
  });

  it.each([[{}], ['text'], [{ selectedCapabilityRoots: null }]])(
    'are none in the configuration %j',
    async (config) => {
      world.add('worker', FakeConnector.up());
      expect(await attached(config)).toEqual({
        attached: [{ configuredBy: 'owner', roots: [] }],
        warnings: [],
      });
    },
  );

  it.each([
    ['broken', [{ id: 'x' }]],
    ["another environment's", [plugin, rootIn('other', 'x')]],
  ])('are skipped with a warning when they are %s', async (_, roots) => {
    world.add('worker', FakeConnector.up());
    const { attached: found, warnings } = await attached({ selectedCapabilityRoots: roots });
    expect(found).toEqual([{ configuredBy: 'owner', roots: [] }]);
    expect(warnings).toEqual([expect.stringContaining("environment 'worker' has unusable capability roots")]);
  });

  it('are unknown before the environment is ready', async () => {
    world.add('worker');
    thread.select([{ environmentId: 'worker', ...here }]);
    expect(attachmentRoots((await begin()).environments)).toEqual([]);
  });
});
