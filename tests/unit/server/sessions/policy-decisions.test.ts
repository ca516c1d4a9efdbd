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

/** A client that takes what it is sent, unless told otherwise. */
class Client {
  attached = true;
  saturated = false;
  readonly got: NetworkPolicyDecisionEvent[] = [];

  sendBulk(frame: Uint8Array): void {
    this.got.push(JSON.parse(Buffer.from(frame).toString()).params);
  }

  get ports(): number[] {
    return this.got.map(({ port }) => port);
  }
}

function scene() {
  const client = new Client();
  return { client, decisions: new PolicyDecisions(client) };
}

test('a decision is sent at once, with its process', () => {
  const { client, decisions } = scene();
  decisions.report('p', decision(1));
  expect(client.got).toEqual([{ processId: 'p', ...decision(1) }]);
});

test.each(['saturated', 'detached'])('what is decided while the client is %s waits in order', (state) => {
  const { client, decisions } = scene();
  client.saturated = state === 'saturated';
  client.attached = state !== 'detached';
  for (const port of [1, 2, 3]) decisions.report('p', decision(port));
  decisions.flush();
  expect(client.got).toEqual([]);
  Object.assign(client, { saturated: false, attached: true });
  decisions.flush();
  decisions.report('p', decision(4));
  expect(client.ports).toEqual([1, 2, 3, 4]);
  expect(client.got.some((each) => 'droppedBefore' in each)).toBe(false);
});

test('the oldest are dropped when too many wait, and counted', () => {
  const { client, decisions } = scene();
  client.saturated = true;
  for (let port = 1; port <= MAX_WAITING_DECISIONS + 5; port++) decisions.report('p', decision(port));
  client.saturated = false;
  decisions.flush();
  expect(client.got).toHaveLength(MAX_WAITING_DECISIONS);
  expect(client.got[0]).toMatchObject({ port: 6, droppedBefore: 5 });
  expect(client.got[1]).not.toHaveProperty('droppedBefore');
});

test('all processes together may keep so many waiting; the one with most loses', () => {
  const { client, decisions } = scene();
  client.saturated = true;
  const processes = MAX_WAITING_SESSION_DECISIONS / MAX_WAITING_DECISIONS;
  for (let process = 0; process < processes; process++) {
    for (let port = 1; port <= MAX_WAITING_DECISIONS; port++) decisions.report(`p${process}`, decision(port));
  }
  decisions.report('late', decision(1));
  client.saturated = false;
  decisions.flush();
  expect(client.got).toHaveLength(MAX_WAITING_SESSION_DECISIONS);
  expect(client.got.filter((each) => each.droppedBefore !== undefined)).toMatchObject([
    { port: 2, droppedBefore: 1 },
  ]);
  expect(client.got.at(-1)).toMatchObject({ processId: 'late' });
});

test('the end of a process sends what is left of it, and only of it, to a client that is behind', () => {
  const { client, decisions } = scene();
  client.saturated = true;
  decisions.report('p', decision(1));
  decisions.report('q', decision(2));
  decisions.end('p');
  expect(client.ports).toEqual([1]);
  decisions.end('p');
  expect(client.ports).toEqual([1]);
});

test('what is left of a process that ends while the client is away comes when it is back', () => {
  const { client, decisions } = scene();
  client.attached = false;
  decisions.report('p', decision(1));
  decisions.end('p');
  client.attached = true;
  decisions.flush();
  expect(client.ports).toEqual([1]);
});

test('a client that gets behind in the middle keeps the rest waiting', () => {
  const { client, decisions } = scene();
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
