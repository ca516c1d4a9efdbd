import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { EnvironmentManager } from '../../../../src/environment/manager.ts';
import { createConnector } from '../../../../src/environment/remote/create-connector.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, startParams } from '../../client/fake-server.ts';

const never = new AbortController().signal;

let server: WebSocketServer;
let url: string;
/** The request and the first message of each connection. */
let greetings: { request: IncomingMessage; message: { method: string; params: Record<string, unknown> } }[];
let answer: boolean;
beforeEach(async () => {
  greetings = [];
  answer = true;
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (socket: WebSocket, request) => {
    socket.once('message', (data) => {
      const message = JSON.parse(String(data));
      greetings.push({ request, message });
      if (answer) socket.send(JSON.stringify({ id: message.id, result: { sessionId: 's' } }));
    });
  });
  await once(server, 'listening');
  url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  for (const socket of server.clients) socket.terminate();
  server.close();
});

it('sends the token with the websocket and the client name with the session', async () => {
  const connector = createConnector({ type: 'websocket', url, authToken: 'secret' }, { clientName: 'me' });
  const { client } = await connector.connect(never);
  await client.close();
  expect(greetings[0]!.request.headers.authorization).toBe('Bearer secret');
  expect(greetings[0]!.request.headers.origin).toBeUndefined();
  expect(greetings[0]!.message).toMatchObject({
    method: 'initialize',
    params: { clientName: 'me', resumeSessionId: null },
  });
});

it('sends no token by default, but a client name', async () => {
  const { client } = await createConnector({ type: 'websocket', url, authToken: null }).connect(never);
  await client.close();
  expect(greetings[0]!.request.headers.authorization).toBeUndefined();
  expect(greetings[0]!.message.params.clientName).toBe('exec-server-environment');
});

it('applies the configured time limits', async () => {
  answer = false;
  const silent = createConnector({ type: 'websocket', url, initializeTimeoutMs: 20 });
  await expect(silent.connect(never)).rejects.toMatchObject({ kind: 'initializeTimeout', retryable: true });
  const opener = { type: 'opener', resumable: false, open: () => new Promise<never>(() => {}) } as const;
  await expect(createConnector({ ...opener, connectTimeoutMs: 20 }).connect(never)).rejects.toMatchObject({
    kind: 'connectTimeout',
  });
});

it.each([
  ['the transport', { recoveryWindowMs: 0 }, { recoveryWindowMs: 'none' }],
  ['the settings of the manager', {}, { recoveryWindowMs: 0 }],
] as const)('takes the recovery window from %s', async (_name, target, settings) => {
  const executor = new FakeServer();
  const opener = { type: 'opener', resumable: true, open: executor.open } as const;
  for (const transport of [{ type: 'websocket', url } as const, opener]) {
    const { client } = await createConnector({ ...transport, ...target }, settings).connect(never);
    for (const socket of server.clients) socket.terminate();
    executor.links[0]?.break();
    await waitFor('the end', () => client.state === 'failed');
  }
});

it('retries a known executor for the connect timeout', () => {
  expect(createConnector({ type: 'websocket', url, connectTimeoutMs: 7 }).retryWindowMs).toBe(7);
  expect(createConnector({ type: 'websocket', url }).retryWindowMs).toBe(10_000);
});

it('only transports without a program reconnect', () => {
  const open = () => new Promise<never>(() => {});
  const kinds = [
    createConnector({ type: 'websocket', url }),
    createConnector({ type: 'opener', resumable: true, open }),
    createConnector({ type: 'stdio', program: 'p' }),
  ];
  expect(kinds.map(({ reconnects, eager }) => [reconnects, eager])).toEqual([
    [true, true],
    [true, true],
    [false, false],
  ]);
});

it('rejects the URL of a relay before it connects', async () => {
  const connector = createConnector({ type: 'websocket', url: `${url}/?role=harness` });
  await expect(connector.connect(never)).rejects.toMatchObject({
    kind: 'config',
    message:
      'a URL with role=harness is a relay URL, which this transport cannot use; use the URL of a server',
  });
  expect(greetings).toEqual([]);
});

it('an abort ends connecting', async () => {
  answer = false;
  const abort = new AbortController();
  const connecting = createConnector({ type: 'websocket', url }).connect(abort.signal);
  const failed = expect(connecting).rejects.toMatchObject({ kind: 'aborted' });
  await once(server, 'connection');
  abort.abort();
  await failed;
});

it('passes network policy requests to the handler and the trace to calls', async () => {
  const executor = new FakeServer();
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const asked: string[] = [];
  const environments = new EnvironmentManager(
    { environments: [], default: null, includeLocal: false },
    {
      onNetworkPolicyRequest: ({ host }) => {
        asked.push(host);
        return { type: 'allow' };
      },
      trace: () => ({ traceparent }),
    },
  );
  try {
    const environment = environments.add('e', { type: 'opener', resumable: true, open: executor.open });
    await environment.backend.start(startParams());
    expect(executor.requests('process/start')).toMatchObject([{ trace: { traceparent } }]);
    const request = { protocol: 'https_connect', host: 'a.example', port: 443 };
    executor.link.send({ id: 1, method: 'network/policyRequest', params: { processId: 'p', request } });
    await waitFor('the answer', () => executor.link.responses.length === 1);
    expect(executor.link.responses).toEqual([{ id: 1, result: { decision: { type: 'allow' } } }]);
    expect(asked).toEqual(['a.example']);
  } finally {
    await environments.dispose();
  }
});
