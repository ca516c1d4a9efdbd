import { expect, test } from 'vitest';
import { MAX_NETWORK_EVENTS, MAX_REPORTED_DENIALS } from '../../../../src/agent/limits.ts';
import { NetworkDecisions } from '../../../../src/agent/session/network-decisions.ts';
import type { NetworkPolicyDecisionEvent } from '../../../../src/client/backend.ts';

function decision(host: string, kind: 'allow' | 'deny' | 'ask' = 'deny'): NetworkPolicyDecisionEvent {
  return {
    processId: 'p',
    timestamp: '2026-01-01T00:00:00.000Z',
    scope: 'domain',
    decision: kind,
    source: 'decider',
    reason: 'no',
    protocol: 'http',
    host,
    port: 80,
    policyOverride: false,
  };
}

test('passes held decisions on first, then the next ones', () => {
  const decisions = new NetworkDecisions();
  const hosts: string[] = [];
  decisions.take(decision('a', 'allow'));
  decisions.streamTo(({ host }) => hosts.push(host));
  decisions.take(decision('b'));
  expect(hosts).toEqual(['a', 'b']);
});

test('returns each denial once, and counts the rest', () => {
  const decisions = new NetworkDecisions();
  decisions.take(decision('allowed', 'allow'));
  for (let round = 0; round < 2; round++) {
    for (let host = 0; host < MAX_REPORTED_DENIALS; host++) decisions.take(decision(`h${host}`));
  }
  decisions.take(decision('one more', 'ask'));
  const { denials, omitted } = decisions.takeDenials();
  expect(denials.map(({ host }) => host)).toEqual(
    Array.from({ length: MAX_REPORTED_DENIALS }, (_, host) => `h${host}`),
  );
  expect(omitted).toBe(1);
  expect(decisions.takeDenials()).toEqual({ denials: [], omitted: 0 });
});

test('passes on a limited number of decisions', () => {
  const decisions = new NetworkDecisions();
  for (let count = 0; count < MAX_NETWORK_EVENTS + 1; count++) decisions.take(decision('a'));
  let received = 0;
  decisions.streamTo(() => received++);
  decisions.take(decision('a'));
  expect(received).toBe(MAX_NETWORK_EVENTS);
});
