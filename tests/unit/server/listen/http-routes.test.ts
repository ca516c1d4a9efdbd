import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { answerHttp, type ListenerState } from '../../../../src/server/listen/http-routes.ts';

const READY: ListenerState = { ready: true, closing: false, limitReached: null };
const DRAINING: ListenerState = { ready: false, closing: true, limitReached: null };
const FULL: ListenerState = { ready: true, closing: false, limitReached: 'a limit is reached' };

function answer(line: string, options: { upgrade?: boolean; origin?: string; state?: ListenerState } = {}) {
  const [method, url] = line.split(' ');
  const headers = options.origin === undefined ? {} : { origin: options.origin };
  const request = { method, url, headers } as IncomingMessage;
  return answerHttp(request, options.upgrade ?? false, options.state ?? READY);
}

test.each<[string, Parameters<typeof answer>[1], number | null]>([
  ['GET /readyz', {}, 200],
  ['HEAD /readyz', {}, 200],
  ['GET /readyz?x=1', {}, 200],
  ['GET /readyz', { upgrade: true }, 200],
  ['GET /readyz', { state: FULL }, 200],
  ['GET /readyz', { state: DRAINING }, 503],
  ['POST /readyz', {}, 405],
  ['GET /healthz', {}, 200],
  ['GET /healthz', { state: DRAINING }, 200],
  ['DELETE /healthz', {}, 405],
  ['GET /readyz/', {}, 404],
  ['GET /nope', {}, 404],
  ['GET /nope', { upgrade: true }, 404],
  ['GET //', { upgrade: true }, 404],
  ['GET http://host/readyz', {}, 200],
  ['GET ftp://host/readyz', {}, 404],
  ['GET /', {}, 400],
  ['GET /?x=1', {}, 400],
  ['POST /', {}, 405],
  ['POST /', { upgrade: true }, 405],
  ['GET /', { upgrade: true }, null],
  ['GET /?any=query', { upgrade: true }, null],
  ['GET /', { upgrade: true, state: DRAINING }, 503],
  ['GET /', { upgrade: true, state: FULL }, 503],
  ['GET /', { upgrade: true, origin: 'http://page' }, 403],
  ['GET /', { upgrade: true, origin: '' }, 403],
  ['GET /readyz', { origin: 'null' }, 403],
  ['POST /nope', { origin: 'http://page' }, 403],
  ['GET /', { upgrade: true, origin: 'x', state: DRAINING }, 403],
])('answers %s with %j with status %s', (line, options, status) => {
  expect(answer(line, options)?.status ?? null).toBe(status);
});

test.each([
  ['GET /readyz', { 'content-length': '0' }],
  ['POST /readyz', { allow: 'GET,HEAD', 'content-length': '0' }],
  ['POST /', { allow: 'GET', 'content-type': 'text/plain; charset=utf-8', 'content-length': '39' }],
])('answers %s with the headers %j', (line, headers) => {
  expect(answer(line)?.headers).toEqual(headers);
});
