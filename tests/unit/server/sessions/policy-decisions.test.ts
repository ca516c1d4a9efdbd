import { expect, test } from 'vitest';
import type { Decision } from '../../../../src/network/proxy/admission.ts';
import {
  MAX_WAITING_DECISIONS,
  MAX_WAITING_SESSION_DECISIONS,
} from '../../../../src/network/proxy/limits.ts';
import type { NetworkPolicyDecisionEvent } from '../../../../src/protocol/network.ts';
import { PolicyDecisions } from '../../../../src/server/sessions/policy-decisions.ts';

function decision(port: number): Decision {
  return {
    timestamp: '2026-01-02T03:04:05.678Z',
    scope: 'domain',
    decision: 'deny',
    source: 'baseline_policy',
    reason: 'not_allowed',
    protocol: 'http',
    host: 'a.test',
    port,
    method: 'GET',
    client: '127.0.0.1:4',
    policyOverride: false,
  };
}

/** A client that is attached and reads, unless a test changes that. */
class Client {
  attached = true;
  saturated = false;
  readonly received: NetworkPolicyDecisionEvent[] = [];

  sendBulk(frame: Uint8Array): void {
    this.received.push(JSON.parse(Buffer.from(frame).toString()).params);
  }

  get ports(): number[] {
    return this.received.map(({ port }) => port);
  }
}

function fixture() {
  const client = new Client();
  return { client, decisions: new PolicyDecisions(client) };
}

test('sends a decision immediately with its process id', () => {
  const { client, decisions } = fixture();
  decisions.report('p', decision(1));
  expect(client.received).toEqual([{ processId: 'p', ...decision(1) }]);
});

test.each(['saturated', 'detached'])('keeps decisions in order while the client is %s', (state) => {
  const { client, decisions } = fixture();
  client.saturated = state === 'saturated';
  client.attached = state !== 'detached';
  for (const port of [1, 2, 3]) decisions.report('p', decision(port));
  decisions.flush();
  expect(client.received).toEqual([]);
  Object.assign(client, { saturated: false, attached: true });
  decisions.flush();
  decisions.report('p', decision(4));
  expect(client.ports).toEqual([1, 2, 3, 4]);
  expect(client.received.some((each) => 'droppedBefore' in each)).toBe(false);
});

test('drops the oldest decisions when too many wait, and reports their number', () => {
  const { client, decisions } = fixture();
  client.saturated = true;
  for (let port = 1; port <= MAX_WAITING_DECISIONS + 5; port++) decisions.report('p', decision(port));
  client.saturated = false;
  decisions.flush();
  expect(client.received).toHaveLength(MAX_WAITING_DECISIONS);
  expect(client.received[0]).toMatchObject({ port: 6, droppedBefore: 5 });
  expect(client.received[1]).not.toHaveProperty('droppedBefore');
});

test('limits the waiting decisions of all processes; drops those of the process with the most', () => {
  const { client, decisions } = fixture();
  client.saturated = true;
  const processes = MAX_WAITING_SESSION_DECISIONS / MAX_WAITING_DECISIONS;
  for (let process = 0; process < processes; process++) {
    for (let port = 1; port <= MAX_WAITING_DECISIONS; port++) decisions.report(`p${process}`, decision(port));
  }
  decisions.report('late', decision(1));
  client.saturated = false;
  decisions.flush();
  expect(client.received).toHaveLength(MAX_WAITING_SESSION_DECISIONS);
  expect(client.received.filter((each) => each.droppedBefore !== undefined)).toMatchObject([
    { port: 2, droppedBefore: 1 },
  ]);
  expect(client.received.at(-1)).toMatchObject({ processId: 'late' });
});

test('sends the last decisions of an ended process to a client with bulk data waiting', () => {
  const { client, decisions } = fixture();
  client.saturated = true;
  decisions.report('p', decision(1));
  decisions.report('q', decision(2));
  decisions.end('p');
  expect(client.ports).toEqual([1]);
  decisions.end('p');
  expect(client.ports).toEqual([1]);
});

test('sends the last decisions of a process that ended while detached after the client has reattached', () => {
  const { client, decisions } = fixture();
  client.attached = false;
  decisions.report('p', decision(1));
  decisions.end('p');
  client.attached = true;
  decisions.flush();
  expect(client.ports).toEqual([1]);
});

test('stops in the middle when bulk data begins to wait', () => {
  const { client, decisions } = fixture();
  client.saturated = true;
  for (const port of [1, 2, 3]) decisions.report('p', decision(port));
  client.saturated = false;
  const { sendBulk } = client;
  client.sendBulk = (frame) => {
    sendBulk.call(client, frame);
    client.saturated = true;
  };
  decisions.flush();
  expect(client.ports).toEqual([1]);
  client.saturated = false;
  decisions.flush();
  expect(client.ports).toEqual([1, 2]);
});
