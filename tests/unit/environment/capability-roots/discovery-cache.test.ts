import { beforeEach, describe, expect, it } from 'vitest';
import { ClientError } from '../../../../src/client/errors.ts';
import { DiscoveryCache } from '../../../../src/environment/capability-roots/discovery-cache.ts';
import type { SelectedCapabilityRoot } from '../../../../src/environment/capability-roots/selected-root.ts';
import {
  DISCOVERY_BATCH_ROOTS,
  DISCOVERY_TIMEOUT_MS,
  MAX_CACHED_ROOTS,
} from '../../../../src/environment/limits.ts';
import { FakeDiscoverable, found, rootIn } from './support.ts';

let cache: DiscoveryCache;
let worker: FakeDiscoverable;
beforeEach(() => {
  cache = new DiscoveryCache();
  worker = new FakeDiscoverable('worker');
});

const plugin = rootIn('worker', 'plugin@1');
const lost = () => new ClientError('disconnected', 'the connection was lost');

function via(environment: FakeDiscoverable, ...roots: readonly SelectedCapabilityRoot[]) {
  return roots.map((root) => ({ root, environment }));
}

function many(count: number, from = 0): SelectedCapabilityRoot[] {
  return Array.from({ length: count }, (_, index) => rootIn('worker', `r${from + index}`));
}

describe('a discovered root', () => {
  it('is cached', async () => {
    const [first] = await cache.discover(via(worker, plugin));
    const [second] = await cache.discover(via(worker, plugin));
    expect(first).toEqual({
      root: plugin,
      environment: worker,
      discovered: found({ id: 'plugin@1', path: 'file:///roots/plugin@1' }),
      error: null,
    });
    expect(second!.discovered).toBe(first!.discovered);
    expect(worker.requests).toHaveLength(1);
  });

  it('stays cached for a new handle, which the result then has', async () => {
    const [first] = await cache.discover(via(worker, plugin));
    const fresh = new FakeDiscoverable('worker');
    const [second] = await cache.discover(via(fresh, plugin));
    expect(fresh.requests).toHaveLength(0);
    expect(second!.discovered).toBe(first!.discovered);
    expect(second!.environment).toBe(fresh);
  });

  it('stays cached while its environment is disconnected', async () => {
    await cache.discover(via(worker, plugin));
    expect(await cache.discover([])).toEqual([]);
    expect(await cache.discover(via(worker, plugin))).toHaveLength(1);
    expect(worker.requests).toHaveLength(1);
  });

  it('stays cached when it is unusable', async () => {
    worker.answers = [([root]) => [found(root!, 'no such directory')]];
    for (let step = 0; step < 2; step++) {
      const [result] = await cache.discover(via(worker, plugin));
      expect(result!.discovered!.error).toBe('no such directory');
    }
    expect(worker.requests).toHaveLength(1);
  });

  it.each([
    ['id', { id: 'plugin@2' }],
    ['path', { path: '/elsewhere' }],
    ['environment', { environmentId: 'other' }],
  ])('has another cache key when its %s differs', async (_, part) => {
    await cache.discover(via(worker, plugin));
    const { id, environmentId, path } = {
      id: 'plugin@1',
      environmentId: 'worker',
      path: '/roots/plugin@1',
      ...part,
    };
    const environment = new FakeDiscoverable(environmentId);
    await cache.discover(via(environment, rootIn(environmentId, id, path)));
    expect(environment.requests).toHaveLength(1);
  });

  it('is discovered once by concurrent steps', async () => {
    await Promise.all([cache.discover(via(worker, plugin)), cache.discover(via(worker, plugin))]);
    expect(worker.requests).toHaveLength(1);
  });

  it('is immutable', async () => {
    const results = await cache.discover(via(worker, plugin));
    expect(Object.isFrozen(results)).toBe(true);
    expect(() => results[0]!.discovered!.skills.pop()).toThrow(TypeError);
    expect(() => Object.assign(results[0]!.discovered!.skills[0]!.instructions, { contents: '' })).toThrow(
      TypeError,
    );
  });
});

describe('requests', () => {
  it('use the handle of the step', async () => {
    const other = new FakeDiscoverable('worker');
    await cache.discover(via(other, plugin));
    expect([worker.requests.length, other.requests]).toEqual([
      0,
      [[{ id: 'plugin@1', path: 'file:///roots/plugin@1' }]],
    ]);
  });

  it('have a limited number of roots, and results keep the order', async () => {
    const roots = many(2 * DISCOVERY_BATCH_ROOTS + 1);
    const results = await cache.discover(via(worker, ...roots));
    expect(worker.requests.map(({ length }) => length)).toEqual([
      DISCOVERY_BATCH_ROOTS,
      DISCOVERY_BATCH_ROOTS,
      1,
    ]);
    expect(results.map(({ root }) => root)).toEqual(roots);
    expect(results.every(({ root, discovered }) => discovered!.id === root.id)).toBe(true);
  });

  it('to several environments run concurrently', async () => {
    const other = new FakeDiscoverable('other');
    const bothAsked = () => worker.requests.length + other.requests.length === 2;
    const met: boolean[] = [];
    for (const environment of [worker, other]) {
      const discover = environment.discovery.discover;
      environment.discovery.discover = async (roots) => {
        const answer = discover(roots);
        await Promise.resolve();
        met.push(bothAsked());
        return await answer;
      };
    }
    const roots = [...via(worker, plugin), ...via(other, rootIn('other', 'x'))];
    expect((await cache.discover(roots)).map(({ error }) => error)).toEqual([null, null]);
    expect(met).toEqual([true, true]);
  });

  it('that fail in one environment do not affect others', async () => {
    const other = new FakeDiscoverable('other');
    other.answers = [() => new ClientError('server', 'broken')];
    const results = await cache.discover([...via(other, rootIn('other', 'x')), ...via(worker, plugin)]);
    expect(results.map(({ error }) => error?.message ?? null)).toEqual(['broken', null]);
  });

  it('end when the caller aborts, and cache no wrong result', async () => {
    const abort = new AbortController();
    worker.answers = [
      () => {
        abort.abort();
        return new ClientError('aborted', 'aborted');
      },
    ];
    await expect(cache.discover(via(worker, plugin), {}, { signal: abort.signal })).rejects.toMatchObject({
      kind: 'aborted',
    });
    const [result] = await cache.discover(via(worker, plugin));
    expect(result!.error).toBeNull();
    expect(cache.takeRecovered()).toBe(false);
  });

  it('are not sent for a caller that aborted earlier', async () => {
    const signal = AbortSignal.abort();
    await expect(cache.discover(via(worker, plugin), {}, { signal })).rejects.toMatchObject({
      kind: 'aborted',
    });
    await cache.discover([]);
    expect(worker.requests).toHaveLength(0);
  });

  it('continue for the next step when the caller times out', async () => {
    let answer = () => {};
    const discover = worker.discovery.discover;
    worker.discovery.discover = async (roots) => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      return discover(roots);
    };
    await expect(cache.discover(via(worker, plugin), {}, { timeoutMs: 1 })).rejects.toMatchObject({
      kind: 'timeout',
    });
    const next = cache.discover(via(worker, plugin));
    answer();
    expect(await next).toHaveLength(1);
    expect(worker.requests).toHaveLength(1);
  });
});

describe('a connection failure', () => {
  it('is retried once when the environment reconnects', async () => {
    worker.answers = [lost];
    const [result] = await cache.discover(via(worker, plugin));
    expect(result!.error).toBeNull();
    expect([worker.requests.length, worker.waits]).toEqual([2, 1]);
    expect(cache.takeRecovered()).toBe(false);
  });

  it('is retried only once', async () => {
    worker.answers = [lost, lost];
    const [result] = await cache.discover(via(worker, plugin));
    expect(result!.error).toEqual({ message: 'the connection was lost', retryable: true });
    expect(worker.requests).toHaveLength(2);
  });

  it('is not a timeout, which only the next step retries', async () => {
    worker.answers = [() => new ClientError('timeout', 'too long', { retryable: true })];
    const [late] = await cache.discover(via(worker, plugin));
    expect(late!.error).toEqual({ message: 'too long', retryable: true });
    expect([worker.requests.length, worker.waits]).toEqual([1, 0]);
    expect((await cache.discover(via(worker, plugin)))[0]!.error).toBeNull();
  });

  it('is retried in the next step, and the recovery is reported once', async () => {
    worker.unready = lost();
    worker.answers = [lost];
    const [failed] = await cache.discover(via(worker, plugin));
    expect(failed).toMatchObject({ discovered: null, error: { retryable: true } });
    expect(worker.requests).toHaveLength(1);
    expect(cache.takeRecovered()).toBe(false);

    const [recovered] = await cache.discover(via(worker, plugin));
    expect(recovered!.discovered).not.toBeNull();
    expect([cache.takeRecovered(), cache.takeRecovered()]).toEqual([true, false]);
    await cache.discover(via(worker, plugin));
    expect([worker.requests.length, cache.takeRecovered()]).toEqual([2, false]);
  });

  it.each([
    'connectFailed',
    'connectTimeout',
    'initializeTimeout',
    'brokenPipe',
    'timeout',
    'closed',
  ] as const)('of the kind %s may pass', async (kind) => {
    worker.unready = lost();
    worker.answers = [() => new ClientError(kind, 'x')];
    const [result] = await cache.discover(via(worker, plugin));
    expect(result!.error!.retryable).toBe(true);
  });
});

describe('another failure', () => {
  it.each([
    ['the server refuses', () => new ClientError('server', 'no')],
    ['the server has no such method', () => new ClientError('unsupported', 'no')],
    ['too few roots are answered', () => []],
    ['another root is answered', () => [found({ id: 'x', path: 'file:///roots/plugin@1' })]],
    ['another path is answered', () => [found({ id: 'plugin@1', path: 'file:///x' })]],
  ])('is cached: %s', async (_, answer) => {
    worker.answers = [answer];
    for (let step = 0; step < 2; step++) {
      const [result] = await cache.discover(via(worker, plugin));
      expect(result).toMatchObject({ discovered: null, error: { retryable: false } });
    }
    expect([worker.requests.length, worker.waits]).toEqual([1, 0]);
  });

  it('of one root does not affect the others', async () => {
    worker.answers = [([, two]) => [found(two!), found(two!)]];
    const results = await cache.discover(via(worker, ...many(2)));
    expect(results.map(({ error }) => error !== null)).toEqual([true, false]);
  });
});

describe('a sandbox', () => {
  const enforcing = (writable: string) => ({ permissions: { type: 'managed', writable } });
  const under = (sandbox: unknown) => ({ sandboxes: new Map([['worker', sandbox]]) });
  const off = { permissions: { type: 'disabled' } };

  it('is sent, and is part of the cache key', async () => {
    worker.capabilities = { capabilityDiscoverySandbox: true };
    await cache.discover(via(worker, plugin), under(enforcing('/a')));
    await cache.discover(via(worker, plugin), under(enforcing('/a')));
    expect(worker.requests).toHaveLength(1);
    await cache.discover(via(worker, plugin), under(enforcing('/b')));
    await cache.discover(via(worker, plugin), under(enforcing('/a')));
    expect(worker.requests.map(([root]) => root!.sandbox)).toEqual([
      enforcing('/a'),
      enforcing('/b'),
      enforcing('/a'),
    ]);
  });

  it('does not extend the time limit of discovery', async () => {
    await cache.discover(via(worker, plugin), under(enforcing('/a')), { timeoutMs: 10_000_000 });
    expect(worker.infoOptions).toMatchObject([{ timeoutMs: DISCOVERY_TIMEOUT_MS }]);
  });

  it('is required: a server that cannot enforce it is an error', async () => {
    const [result] = await cache.discover(via(worker, plugin), under(enforcing('/a')));
    expect(result!.error).toMatchObject({
      retryable: false,
      message: expect.stringContaining('cannot sandbox'),
    });
    expect(worker.requests).toHaveLength(0);
  });

  it('that restricts nothing needs no support of the server', async () => {
    const [result] = await cache.discover(via(worker, plugin), under(off));
    expect(result!.error).toBeNull();
    expect(worker.requests[0]![0]).not.toHaveProperty('sandbox');
  });

  it('is required where reading is restricted', async () => {
    const other = new FakeDiscoverable('other');
    const roots = [...via(other, rootIn('other', 'x')), ...via(worker, plugin)];
    const results = await cache.discover(roots, { ...under(off), restrictedReads: true });
    expect(results.map(({ root }) => root.id)).toEqual(['plugin@1']);
    expect(other.requests).toHaveLength(0);
  });
});

it('caches a limited number of roots: the most recently used', async () => {
  await cache.discover(via(worker, ...many(MAX_CACHED_ROOTS)));
  await cache.discover(via(worker, ...many(1)));
  await cache.discover(via(worker, rootIn('worker', 'one more')));
  worker.requests.length = 0;
  await cache.discover(via(worker, ...many(1)));
  expect(worker.requests).toHaveLength(0);
  await cache.discover(via(worker, ...many(1, 1)));
  expect(worker.requests).toHaveLength(1);
});
