import { afterEach, expect, test } from 'vitest';
import { LOOKUP_CONCURRENCY, MAX_WAITING_LOOKUPS } from '../../../../src/network/proxy/limits.ts';
import { ProxyResources, ServerPorts, systemLookup } from '../../../../src/network/proxy/proxy-resources.ts';
import type { NetworkPolicyDecision } from '../../../../src/protocol/network.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { blockOf, closeFixtures, get, Names, openFixture, openWebServer } from './proxy-fixture.ts';

afterEach(closeFixtures);

test('asks the client about a host that no pattern allows, and reports its decision', async () => {
  const web = await openWebServer();
  const names = new Names({ 'a.test': ['127.0.0.1'] });
  const fixture = await openFixture(
    { allowLocalBinding: true },
    { names, answer: async () => ({ type: 'allow' }) },
  );
  expect(await get(fixture, `a.test:${web.port}`)).toContain('from upstream');
  expect(fixture.policyRequests).toEqual([{ protocol: 'http', host: 'a.test', port: web.port }]);
  const about = { source: 'decider', reason: 'not_allowed', decision: 'allow', policyOverride: true };
  expect(fixture.decisions).toMatchObject([{ scope: 'domain', ...about }]);
});

test.each([
  [{ type: 'deny', reason: 'no way' }, 'blocked-by-policy', 'Request blocked by network policy.'],
  [{ type: 'ask', reason: 'please' }, 'blocked-by-policy', 'Request blocked by network policy.'],
  [{ type: 'deny', reason: 'not_allowed' }, 'blocked-by-allowlist', 'Domain not in allowlist.'],
  [{ type: 'deny', reason: 'constructor' }, 'blocked-by-policy', 'Request blocked by network policy.'],
] as const)('%o blocks', async (answer, proxyError, message) => {
  const fixture = await openFixture({}, { answer: async () => answer as NetworkPolicyDecision });
  const text = await get(fixture, 'a.test');
  expect(text).toContain(`x-proxy-error: ${proxyError}\r\n`);
  const about = { reason: answer.reason, decision: answer.type, source: 'decider' };
  expect(blockOf(text)).toMatchObject({ ...about, message });
  expect(fixture.decisions).toMatchObject([{ ...about, policyOverride: false }]);
});

test('asks only about hosts that are not allowed or are reviewed', async () => {
  const names = new Names({ 'ok.test': ['127.0.0.3'], 'seen.test': ['127.0.0.3'] });
  const fixture = await openFixture(
    {
      domains: { '**.test': 'allow', 'bad.test': 'deny' },
      reviewDomains: ['seen.test'],
      allowLocalBinding: true,
    },
    { names, answer: async () => ({ type: 'deny', reason: 'no' }) },
  );
  for (const host of ['bad.test', 'ok.test:1', 'seen.test:1', 'other.example']) await get(fixture, host);
  expect(fixture.policyRequests.map(({ host }) => host)).toEqual(['seen.test', 'other.example']);
});

test('cancels a policy request when the program disconnects or the proxy closes', async () => {
  const signals: AbortSignal[] = [];
  const fixture = await openFixture(
    {},
    {
      answer: (_request, signal) => {
        signals.push(signal);
        return new Promise((resolve) =>
          signal.addEventListener('abort', () => resolve({ type: 'deny', reason: 'not_allowed' })),
        );
      },
    },
  );
  const answer = get(fixture, 'a.test');
  await waitFor('the policy request', () => signals.length === 1);
  await fixture.proxy.close();
  expect(signals[0]?.aborted).toBe(true);
  expect(await answer).not.toContain('200');
});

test('limits concurrent name lookups and passes slots on', async () => {
  const resolve = systemLookup();
  const names = Array.from({ length: LOOKUP_CONCURRENCY * 3 }, () => 'localhost');
  const answers = await Promise.all(names.map((name) => resolve(name)));
  for (const addresses of answers)
    expect(addresses).toEqual(expect.arrayContaining([expect.stringMatching(/^(127\.|::1)/)]));
  await expect(resolve('does-not-exist.invalid')).rejects.toThrow();
  expect(await resolve('127.0.0.1')).toEqual(['127.0.0.1']);
});

test('limits waiting name lookups', async () => {
  const resolve = systemLookup();
  const names = Array.from({ length: LOOKUP_CONCURRENCY + MAX_WAITING_LOOKUPS + 1 }, () => '127.0.0.1');
  const answers = await Promise.allSettled(names.map((name) => resolve(name)));
  expect(answers.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  expect(answers.at(-1)).toMatchObject({ status: 'rejected' });
});

test('does not let one session use up the name lookups', async () => {
  const resolve = systemLookup();
  const greedy = {};
  const names = Array.from({ length: LOOKUP_CONCURRENCY + MAX_WAITING_LOOKUPS }, () => '127.0.0.1');
  const answers = Promise.allSettled(names.map((name) => resolve(name, greedy)));
  const order: string[] = [];
  void answers.then(() => order.push('greedy'));
  expect(await resolve('127.0.0.1', {})).toEqual(['127.0.0.1']);
  order.push('other');
  const refused = (await answers).filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength((LOOKUP_CONCURRENCY + MAX_WAITING_LOOKUPS) / 2);
  expect(order).toEqual(['other', 'greedy']);
});

test('reserves a port until every holder has removed it', () => {
  const { serverPorts } = new ProxyResources(async () => []);
  const [first, second] = [serverPorts.add(7), serverPorts.add(7)];
  first();
  first();
  expect(serverPorts.includes('127.0.0.1', 7)).toBe(true);
  second();
  expect(serverPorts.includes('127.0.0.1', 7)).toBe(false);
  expect(new ServerPorts().includes('127.0.0.1', 7)).toBe(false);
});
