import { expect, test } from 'vitest';
import type { RequestMessage } from '../../../src/protocol/envelope.ts';
import { numericId } from '../../../src/protocol/envelope.ts';
import { type Handlers, invoke, route } from '../../../src/rpc/router.ts';

const io = { type: 'pipe', stdin: 'closed' } as const;
const program = { argv: ['true'], cwd: 'file:///', env: {} };

function request(method: string, params?: unknown): RequestMessage {
  return { kind: 'request', id: numericId(1), method, params, trace: null, bytes: 1 };
}

test.each([
  ['environment/status', undefined, 'control', null],
  ['process/read', { processId: 'p' }, 'ordinary', 'p'],
  ['process/terminate', { processId: '' }, 'control', ''],
  ['process/list', {}, 'control', null],
  ['process/start', { ...program, processId: 'p', tty: true }, 'ordinary', 'p'],
  ['process/start', { direct: { ...program, processId: 'd', io } }, 'ordinary', 'd'],
  ['process/start', { prepared: { processId: 'q', request: program, io } }, 'ordinary', 'q'],
  ['command/exec/terminate', { processId: 'p' }, 'control', 'p'],
])('routes %s %j to the %s lane, with subject %s', (method, params, lane, subject) => {
  expect(route(request(method, params))).toMatchObject({ method, lane, subject });
});

test.each(['nope', '', 'toString', '__proto__', 'initialized', 'process/kill'])(
  'refuses the unknown method %j',
  (method) => {
    expect(() => route(request(method))).toThrow(expect.objectContaining({ code: -32601 }));
  },
);

const flat = { ...program, processId: 'p', tty: false };

test.each([
  { ...flat, inheritedFds: [3] },
  { ...flat, fds: { 3: 'x' } },
  { direct: { ...program, processId: 'd', io, passFds: [3] } },
  { direct: { ...program, processId: 'd', io }, fdList: [3] },
  { prepared: { processId: 'q', request: { ...program, inherited_fds: [3] }, io } },
])('refuses file descriptors in %j', (params) => {
  const refusal = expect.objectContaining({
    code: -32602,
    message: expect.stringMatching(/^params\.\w+: file descriptors of a client cannot be passed/),
  });
  expect(() => route(request('process/start', params))).toThrow(refusal);
  expect(() => route(request('process/exec', params))).toThrow(refusal);
});

test('ignores empty lists of file descriptors and other unknown params', () => {
  const params = { ...flat, inheritedFds: [], fds: null, someday: [3] };
  expect(route(request('process/start', params)).method).toBe('process/start');
});

test('routes process/exec like process/start', () => {
  expect(route(request('process/exec', flat))).toEqual(route(request('process/start', flat)));
});

test('reports an unknown method before validating its params', () => {
  expect(() => route(request('nope', 5))).toThrow(expect.objectContaining({ code: -32601 }));
  expect(() => route(request('process/read', 5))).toThrow(expect.objectContaining({ code: -32602 }));
});

test('passes validated params and the context to the handler, and its error through', async () => {
  const context = {
    signal: new AbortController().signal,
    trace: null,
    bulk: null,
    maxResultBytes: () => Number.POSITIVE_INFINITY,
    park: () => undefined,
  };
  const handlers = {
    'process/wait': (params: unknown, given: unknown) => {
      if (given === context) return params;
      throw new Error('another context');
    },
  } as unknown as Handlers;
  const routed = route(request('process/wait', { processId: 'p', junk: 1 }));
  expect(await invoke(handlers, routed, context)).toEqual({ processId: 'p', until: 'closed' });
  expect(() => invoke(handlers, routed, { ...context })).toThrow('another context');
});
