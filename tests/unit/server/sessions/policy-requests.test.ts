import { expect, onTestFinished, test, vi } from 'vitest';
import {
  ANSWER_GRACE_MS,
  MAX_OPEN_POLICY_REQUESTS,
  MAX_REASON_BYTES,
} from '../../../../src/network/proxy/limits.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../../src/protocol/limits.ts';
import type { NetworkPolicyRequest } from '../../../../src/protocol/network.ts';
import { RpcConnection } from '../../../../src/rpc/connection.ts';
import { type PolicyRequestPeer, PolicyRequests } from '../../../../src/server/sessions/policy-requests.ts';
import { createMemoryPair } from '../../../../src/transport/memory.ts';
import { forceGc } from '../../../support/force-gc.ts';

const REQUEST: NetworkPolicyRequest = { protocol: 'http', host: 'a.test', port: 80 };
const NEVER = new AbortController().signal;
const DENIED = { type: 'deny', reason: 'not_allowed' };

/** A client that answers every policy request with `result`; without one it never answers. */
function answering(result?: unknown): PolicyRequestPeer & { received: unknown[] } {
  const received: unknown[] = [];
  return {
    received,
    call: (method, params, { signal }) => {
      received.push({ method, params });
      if (result !== undefined) return Promise.resolve(result);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  };
}

const send = (peer: PolicyRequestPeer | null, timeoutMs = 60_000, signal = NEVER) =>
  new PolicyRequests(() => peer).send('p', REQUEST, timeoutMs, signal);

test('sends the process and the host that it wants to reach', async () => {
  const peer = answering({ decision: { type: 'allow' } });
  expect(await send(peer)).toEqual({ type: 'allow' });
  expect(peer.received).toEqual([
    { method: 'network/policyRequest', params: { processId: 'p', request: REQUEST } },
  ]);
});

test.each([
  ['deny', 'no way', 'no way'],
  ['ask', 'please', 'please'],
  ['deny', '', 'policy_denied'],
  ['ask', '', 'policy_denied'],
  ['deny', 'x'.repeat(MAX_REASON_BYTES), 'x'.repeat(MAX_REASON_BYTES)],
])('accepts %s with a valid reason', async (type, reason, counted) => {
  expect(await send(answering({ decision: { type, reason } }))).toEqual({ type, reason: counted });
});

test.each([
  ['a long reason', { decision: { type: 'ask', reason: 'x'.repeat(MAX_REASON_BYTES + 1) } }],
  ['a reason of many bytes', { decision: { type: 'deny', reason: 'é'.repeat(MAX_REASON_BYTES / 2 + 1) } }],
  ['a reason in two lines', { decision: { type: 'ask', reason: 'a\nb' } }],
  ['a reason with an escape', { decision: { type: 'ask', reason: '\u001b[1m' } }],
  ['no reason', { decision: { type: 'ask' } }],
  ['an unknown type of decision', { decision: { type: 'perhaps', reason: 'x' } }],
  ['no decision', {}],
  ['a null result', null],
])('denies when the answer has %s', async (_name, result) => {
  expect(await send(answering(result))).toEqual(DENIED);
});

test('denies while no client is attached', async () => {
  expect(await send(null)).toEqual(DENIED);
});

test('denies a request that is withdrawn', async () => {
  const withdrawal = new AbortController();
  const answer = send(answering(), 60_000, withdrawal.signal);
  withdrawal.abort();
  expect(await answer).toEqual(DENIED);
});

test('denies a request without an answer in time, also when garbage is collected', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const answer = send(answering(), 1_000);
  await forceGc();
  await vi.advanceTimersByTimeAsync(1_000 + ANSWER_GRACE_MS);
  expect(await answer).toEqual(DENIED);
});

test('denies without sending when too many requests are open', async () => {
  const peer = answering();
  const requests = new PolicyRequests(() => peer);
  const withdrawal = new AbortController();
  const open = Array.from({ length: MAX_OPEN_POLICY_REQUESTS }, () =>
    requests.send('p', REQUEST, 60_000, withdrawal.signal),
  );
  expect(await requests.send('p', REQUEST, 60_000, NEVER)).toEqual(DENIED);
  expect(peer.received).toHaveLength(MAX_OPEN_POLICY_REQUESTS);
  withdrawal.abort();
  await Promise.all(open);
  void requests.send('p', REQUEST, 60_000, NEVER);
  expect(peer.received).toHaveLength(MAX_OPEN_POLICY_REQUESTS + 1);
});

test('numbers requests from 1 on a connection; denies on an error response and when the connection closes', async () => {
  const { connection, peer } = connected();
  const requests = new PolicyRequests(() => connection);
  const received: { id: number }[] = [];
  peer.open({
    message: (text) => received.push(JSON.parse(text)),
    undecodable: () => {},
    drained: () => {},
    ended: () => {},
    closed: () => {},
  });
  const [allowed, refused, lost] = ['a', 'b', 'c'].map((id) => requests.send(id, REQUEST, 60_000, NEVER));
  await turn();
  expect(received.map(({ id }) => id)).toEqual([1, 2, 3]);
  peer.send('{"id":1,"result":{"decision":{"type":"allow"}}}');
  peer.send('{"id":2,"error":{"code":-32601,"message":"what?"}}');
  expect(await Promise.all([allowed, refused])).toEqual([{ type: 'allow' }, DENIED]);
  connection.close({ code: 1000, reason: '' });
  expect(await lost).toEqual(DENIED);
});

function connected() {
  const [ours, peer] = createMemoryPair();
  const connection = new RpcConnection(ours, {
    limits: DEFAULT_MESSAGE_LIMITS,
    outboundHighWaterBytes: 1024,
  });
  const ignore = () => {};
  connection.open({
    request: ignore,
    notification: ignore,
    unexpectedResponse: ignore,
    bulk: ignore,
    responses: ignore,
    ended: ignore,
    closed: ignore,
  });
  return { connection, peer };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
