import { expect, test } from 'vitest';
import { MAX_OPEN_POLICY_REQUESTS, MAX_REASON_BYTES } from '../../../../src/network/proxy/limits.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../../src/protocol/limits.ts';
import type { NetworkPolicyRequest } from '../../../../src/protocol/network.ts';
import { RpcConnection } from '../../../../src/rpc/connection.ts';
import { PolicyQuestions, type QuestionPeer } from '../../../../src/server/sessions/policy-questions.ts';
import { createMemoryPair } from '../../../../src/transport/memory.ts';

const QUESTION: NetworkPolicyRequest = { protocol: 'http', host: 'a.test', port: 80 };
const NEVER = new AbortController().signal;
const DENIED = { type: 'deny', reason: 'not_allowed' };

/** Somebody who answers every question with this, or never. */
function answering(result?: unknown): QuestionPeer & { asked: unknown[] } {
  const asked: unknown[] = [];
  return {
    asked,
    call: (method, params, { signal }) => {
      asked.push({ method, params });
      if (result !== undefined) return Promise.resolve(result);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  };
}

const ask = (peer: QuestionPeer | null, timeoutMs = 60_000, signal = NEVER) =>
  new PolicyQuestions(() => peer).ask('p', QUESTION, timeoutMs, signal);

test('the question names the process and what it wants', async () => {
  const peer = answering({ decision: { type: 'allow' } });
  expect(await ask(peer)).toEqual({ type: 'allow' });
  expect(peer.asked).toEqual([
    { method: 'network/policyRequest', params: { processId: 'p', request: QUESTION } },
  ]);
});

test.each([
  ['deny', 'no way', 'no way'],
  ['ask', 'please', 'please'],
  ['deny', '', 'policy_denied'],
  ['ask', '', 'policy_denied'],
  ['deny', 'x'.repeat(MAX_REASON_BYTES), 'x'.repeat(MAX_REASON_BYTES)],
])('%s with a proper reason counts', async (type, reason, counted) => {
  expect(await ask(answering({ decision: { type, reason } }))).toEqual({ type, reason: counted });
});

test.each([
  ['a long reason', { decision: { type: 'ask', reason: 'x'.repeat(MAX_REASON_BYTES + 1) } }],
  ['a reason of many bytes', { decision: { type: 'deny', reason: 'é'.repeat(MAX_REASON_BYTES / 2 + 1) } }],
  ['a reason in two lines', { decision: { type: 'ask', reason: 'a\nb' } }],
  ['a reason with an escape', { decision: { type: 'ask', reason: '\u001b[1m' } }],
  ['no reason', { decision: { type: 'ask' } }],
  ['an unknown decision', { decision: { type: 'perhaps', reason: 'x' } }],
  ['no decision', {}],
  ['nothing', null],
])('%s is a denial', async (_name, result) => {
  expect(await ask(answering(result))).toEqual(DENIED);
});

test('nobody to ask is a denial', async () => {
  expect(await ask(null)).toEqual(DENIED);
});

test('a question that is taken back is a denial', async () => {
  const taken = new AbortController();
  const answer = ask(answering(), 60_000, taken.signal);
  taken.abort();
  expect(await answer).toEqual(DENIED);
});

test('so many questions may be open, and one more is denied unasked', async () => {
  const peer = answering();
  const questions = new PolicyQuestions(() => peer);
  const taken = new AbortController();
  const open = Array.from({ length: MAX_OPEN_POLICY_REQUESTS }, () =>
    questions.ask('p', QUESTION, 60_000, taken.signal),
  );
  expect(await questions.ask('p', QUESTION, 60_000, NEVER)).toEqual(DENIED);
  expect(peer.asked).toHaveLength(MAX_OPEN_POLICY_REQUESTS);
  taken.abort();
  await Promise.all(open);
  void questions.ask('p', QUESTION, 60_000, NEVER);
  expect(peer.asked).toHaveLength(MAX_OPEN_POLICY_REQUESTS + 1);
});

test('over a real connection ids count from 1, a refusal and the end of the connection are denials', async () => {
  const { connection, peer } = connected();
  const questions = new PolicyQuestions(() => connection);
  const received: { id: number }[] = [];
  peer.open({
    message: (text) => received.push(JSON.parse(text)),
    undecodable: () => {},
    drained: () => {},
    ended: () => {},
    closed: () => {},
  });
  const [allowed, refused, lost] = ['a', 'b', 'c'].map((id) => questions.ask(id, QUESTION, 60_000, NEVER));
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
