import { beforeEach, describe, expect, it } from 'vitest';
import type { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, misconfigured } from '../fake-connector.ts';
import { at, ThreadFixture } from './thread-fixture.ts';

let fixture: ThreadFixture;
let thread: ThreadEnvironments;
beforeEach(() => {
  fixture = new ThreadFixture();
  thread = fixture.thread;
});

describe('a tool call', () => {
  it('gets the requested environment, or the primary one', async () => {
    for (const id of ['a', 'b']) fixture.register(id, FakeConnector.up());
    thread.select([at('a'), at('b')]);
    const step = await thread.beginTurn();
    expect(step.choose().environmentId).toBe('a');
    expect(step.choose('b').environmentId).toBe('b');
    expect(() => step.choose('c')).toThrow("environment 'c' is not available; use one of a, b");
  });

  it('fails when no environment is ready', async () => {
    fixture.register('slow');
    thread.select([at('slow')]);
    const step = await thread.beginTurn({ wait: false });
    expect(() => step.choose()).toThrow('no execution environment is available');
    expect(() => step.choose('slow')).toThrow('no execution environment is available');
  });

  it('may wait for an environment', async () => {
    const slow = fixture.register('slow');
    fixture.register('broken');
    thread.select([at('slow'), at('broken')]);
    const step = await thread.beginTurn({ wait: false });
    const waiting = step.waitForEnvironment('slow');
    fixture.connectorOf(slow).last.succeed();
    expect(await waiting).toEqual({ environmentId: 'slow', state: 'ready' });
    fixture.connectorOf(fixture.registry.get('broken')!).last.fail(misconfigured('bad URL'));
    await expect(step.waitForEnvironment('broken')).rejects.toThrow(
      "environment 'broken' failed: bad URL; continue without it",
    );
    await expect(step.waitForEnvironment('other')).rejects.toThrow(
      "environment 'other' is not part of this turn; its environments are slow, broken",
    );
    await expect(step.waitForEnvironment('slow', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });
});
