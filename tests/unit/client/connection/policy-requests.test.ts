import { describe, expect, test } from 'vitest';
import type { NetworkPolicyDecision, PolicyRequest } from '../../../../src/client/index.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, startParams } from '../fake-server.ts';

const DENIED = { decision: { type: 'deny', reason: 'not_allowed' } };

const policyRequest = (id: number | string, processId = 'p', host = 'a.example') => ({
  id,
  method: 'network/policyRequest',
  params: { processId, request: { protocol: 'https_connect', host, port: 443 } },
});

type Handler = (request: PolicyRequest, signal: AbortSignal) => unknown;

/** A client with a process `p` and a handler that may return anything. */
async function connected(handler?: Handler) {
  const server = new FakeServer();
  const onNetworkPolicyRequest = handler as () => NetworkPolicyDecision;
  const client = await server.connect(handler === undefined ? {} : { onNetworkPolicyRequest });
  await client.backend.start(startParams());
  const { link } = server;
  const answers = async (count: number) => {
    await waitFor(`${count} answers`, () => link.responses.length >= count);
    return link.responses;
  };
  return { server, client, link, answers };
}

describe('a policy request', () => {
  test.each<NetworkPolicyDecision>([
    { type: 'allow' },
    { type: 'deny', reason: 'not today' },
    { type: 'ask', reason: '' },
  ])('is answered with the decision of the handler: %j', async (decision) => {
    const asked: PolicyRequest[] = [];
    const { client, link, answers } = await connected((given) => {
      asked.push(given);
      return { ...decision, more: 'ignored' };
    });
    link.send(policyRequest(1));
    expect(await answers(1)).toEqual([{ id: 1, result: { decision } }]);
    expect(asked).toEqual([{ processId: 'p', protocol: 'https_connect', host: 'a.example', port: 443 }]);
    await client.close();
  });

  test.each<[string, Handler | undefined]>([
    ['a missing handler', undefined],
    [
      'a handler that throws',
      () => {
        throw new Error('no idea');
      },
    ],
    ['a handler that rejects', () => Promise.reject(new Error('no idea'))],
    ['a handler that returns nothing', () => undefined],
    ['a handler that returns something else', () => ({ type: 'maybe', reason: 'x' })],
    ['a handler that denies without a reason', () => ({ type: 'deny' })],
  ])('is denied by %s', async (_name, handler) => {
    const { client, link, answers } = await connected(handler);
    link.send(policyRequest(1));
    expect(await answers(1)).toEqual([{ id: 1, result: DENIED }]);
    await client.close();
  });

  test('is denied for a process that this client did not start, or that is closed', async () => {
    const { client, link, answers } = await connected(() => ({ type: 'allow' }));
    link.send(policyRequest(1, 'of-another-client'));
    link.exited('p', 1);
    link.closedProcess('p', 2);
    link.send(policyRequest(2));
    expect(await answers(2)).toEqual([
      { id: 1, result: DENIED },
      { id: 2, result: DENIED },
    ]);
    await client.close();
  });

  test('is answered before the start of its process is answered', async () => {
    const { server, client, link, answers } = await connected(() => ({ type: 'allow' }));
    server.answers['process/start'] = ({ processId }) => {
      link.send(policyRequest(1, processId));
      return { processId, sandboxType: 'none' };
    };
    await client.backend.start(startParams('q'));
    expect(await answers(1)).toEqual([{ id: 1, result: { decision: { type: 'allow' } } }]);
    await client.close();
  });

  test.each([
    ['no params', undefined],
    ['no request', { processId: 'p' }],
    ['no process', { request: { protocol: 'http', host: 'a', port: 1 } }],
    ['another protocol', { processId: 'p', request: { protocol: 'gopher', host: 'a', port: 1 } }],
    ['no host', { processId: 'p', request: { protocol: 'http', port: 1 } }],
    ['an impossible port', { processId: 'p', request: { protocol: 'http', host: 'a', port: 65_536 } }],
  ])('is refused with %s in it', async (_name, params) => {
    const { client, link, answers } = await connected(() => ({ type: 'allow' }));
    link.send({ id: 1, method: 'network/policyRequest', params });
    expect(await answers(1)).toEqual([
      { id: 1, error: expect.objectContaining({ code: -32602 }) as unknown },
    ]);
    expect(client.state).toBe('connected');
    await client.close();
  });

  test('is denied when 256 are open, and handled again when one is answered', async () => {
    const open: (() => void)[] = [];
    const { client, link, answers } = await connected(
      () => new Promise((resolve) => open.push(() => resolve({ type: 'allow' }))),
    );
    for (let id = 1; id <= 257; id++) link.send(policyRequest(id));
    expect(await answers(1)).toEqual([{ id: 257, result: DENIED }]);
    expect(open).toHaveLength(256);
    open.shift()!();
    await answers(2);
    link.send(policyRequest(258));
    await waitFor('the next request', () => open.length === 256);
    for (const answer of open) answer();
    const all = await answers(258);
    expect(all.filter((answer) => JSON.stringify(answer).includes('deny'))).toHaveLength(1);
    await client.close();
  });

  test('is aborted with its connection, and keeps its slot until the handler settles', async () => {
    const signals: AbortSignal[] = [];
    const { server, client, link } = await connected((_request, signal) => {
      signals.push(signal);
      return new Promise(() => {});
    });
    for (let id = 1; id <= 256; id++) link.send(policyRequest(id));
    await waitFor('the requests', () => signals.length === 256);
    link.break();
    await waitFor('the next connection', () => server.links.length === 2 && client.state === 'connected');
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    server.link.send(policyRequest(1));
    await waitFor('the denial', () => server.link.responses.length === 1);
    expect(server.link.responses).toEqual([{ id: 1, result: DENIED }]);
    expect(link.responses).toEqual([]);
    await client.close();
  });

  test.each([
    ['a text as its id', [policyRequest('one')]],
    ['a negative id', [policyRequest(-1)]],
    ['the id of an open request', [policyRequest(1), policyRequest(1)]],
  ])('with %s ends the connection but not the client', async (_name, requests) => {
    const { server, client, link } = await connected(() => new Promise(() => {}));
    for (const each of requests) link.send(each);
    await waitFor('another connection', () => server.links.length === 2 && client.state === 'connected');
    expect(link.closed?.code).toBe(1002);
    expect(link.responses).toEqual([]);
    await client.close();
  });
});

test('policy decisions reach the listeners', async () => {
  const { client, link } = await connected();
  const heard: unknown[] = [];
  const stop = client.onNotification('network/policyDecision', ({ host, decision, droppedBefore = 0 }) =>
    heard.push([host, decision, droppedBefore]),
  );
  link.send({
    method: 'network/policyDecision',
    params: { processId: 'p', host: 'a.example', decision: 'deny', droppedBefore: 3 },
  });
  await waitFor('the decision', () => heard.length === 1);
  expect(heard).toEqual([['a.example', 'deny', 3]]);
  stop();
  await client.close();
});
