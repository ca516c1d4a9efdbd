import { describe, expect, test } from 'vitest';
import type { Approval, ExecPolicy, HostRequest, NetworkChoice } from '../../../../src/agent/index.ts';
import { hostHandler } from '../../../../src/agent/launch/network.ts';
import { AgentFixture } from '../agent-fixture.ts';
import { settled } from '../manual-clock.ts';

const HOST = { processId: 'p', protocol: 'http', host: 'a.example', port: 80 } as const;
const never = () => new AbortController().signal;

describe('a policy about hosts', () => {
  test('decides once for concurrent requests for the same host', async () => {
    const asked: string[] = [];
    let decide = (_: Approval) => {};
    const handle = hostHandler(({ host, port }) => {
      asked.push(`${host}:${port}`);
      return new Promise((resolve) => {
        decide = resolve;
      });
    }, never());
    const both = [handle(HOST, never()), handle(HOST, never())];
    expect(asked).toEqual(['a.example:80']);
    decide({ approved: true });
    expect(await Promise.all(both)).toEqual([{ type: 'allow' }, { type: 'allow' }]);
    const later = handle(HOST, never());
    void handle({ ...HOST, port: 81 }, never());
    expect(asked).toEqual(['a.example:80', 'a.example:80', 'a.example:81']);
    decide({ approved: false, reason: 'no' });
    void later;
  });

  test('pauses the time limits of calls', async () => {
    let decide = (_: Approval) => {};
    const hosts: HostRequest[] = [];
    const policy: ExecPolicy = {
      chooseNetwork: () => ({}),
      approveHost: (_request, host) => {
        hosts.push(host);
        return new Promise((resolve) => {
          decide = resolve;
        });
      },
    };
    const fixture = new AgentFixture({ policy });
    const call = await fixture.exec({ yield_time_ms: 1_000 });
    const decision = fixture.backend.lastOptions.onNetworkPolicyRequest!(HOST, never());
    await fixture.clock.advance(60_000);
    expect(call.output).toBeNull();
    decide({ approved: false, reason: 'not needed' });
    expect(await decision).toEqual({ type: 'deny', reason: 'not needed' });
    await fixture.clock.advance(1_000);
    expect(hosts).toEqual([{ ...HOST, processId: String(call.output!.sessionId) }]);
  });
});

describe('a managed network', () => {
  test('is not requested without a choice', async () => {
    const fixture = new AgentFixture({ policy: { chooseNetwork: () => null } });
    await fixture.exec();
    expect(fixture.backend.last.params).not.toHaveProperty('networkProxy');
    expect(fixture.backend.last.params).not.toHaveProperty('enforceManagedNetwork');
  });

  test.each([
    [{ proxi: {} }, "chooseNetwork has the unknown member 'proxi'; the members are proxy, enforce"],
    [
      { proxy: { domain: {} } },
      "chooseNetwork: proxy has the unknown member 'domain'; the members are enabled, ",
    ],
  ])('is refused with an unknown member: %j', async (choice, message) => {
    const fixture = new AgentFixture({ policy: { chooseNetwork: () => choice as NetworkChoice } });
    const { error } = await fixture.exec();
    expect([error!.kind, error!.message]).toEqual(['invalidPolicy', expect.stringContaining(message)]);
    expect(fixture.backend.started).toEqual([]);
  });

  test('is enforced with the sandbox of the policy, and asks only when the policy decides', async () => {
    const sandbox = { type: 'readOnly' };
    const policy: ExecPolicy = { chooseSandbox: () => sandbox, chooseNetwork: () => ({}) };
    const silent = new AgentFixture({ policy });
    await silent.exec();
    expect(silent.backend.last.params).toMatchObject({ sandbox, enforceManagedNetwork: true });
    expect(silent.backend.last.params.networkProxy).not.toHaveProperty('policyDecisionTimeoutMs');
    const asking = new AgentFixture({
      policy: { ...policy, approveHost: async () => ({ approved: true }) },
    });
    await asking.exec();
    expect(asking.backend.last.params.networkProxy!.policyDecisionTimeoutMs).toBe(300_000);
  });

  test('reports decisions before the begin event after it, and none after the end', async () => {
    const fixture = new AgentFixture({ policy: { chooseNetwork: () => ({}) } });
    const decided = {
      ...HOST,
      timestamp: '',
      scope: 'domain',
      decision: 'deny',
      source: 'baseline_policy',
      reason: 'not_allowed',
      policyOverride: false,
    } as const;
    fixture.backend.onStart = (_, { onNetworkPolicyDecision }) => onNetworkPolicyDecision!(decided);
    const call = await fixture.exec();
    fixture.backend.last.end(0);
    await settled();
    fixture.backend.lastOptions.onNetworkPolicyDecision!(decided);
    expect(fixture.story).toEqual(['begin call-1 1000', 'deny a.example:80 not_allowed', 'end 0 completed']);
    expect(call.output!.networkDenials).toHaveLength(1);
  });
});
