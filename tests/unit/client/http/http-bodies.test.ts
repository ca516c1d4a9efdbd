import { describe, expect, test } from 'vitest';
import { encodeBase64 } from '../../../../src/base/base64.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { HttpBodies, type HttpBody } from '../../../../src/client/http/http-bodies.ts';
import {
  BODY_QUEUE_MAX_CHUNKS,
  BODY_QUEUES_MAX_BYTES,
  MAX_BODY_DELTA_BYTES,
} from '../../../../src/client/limits.ts';

function delta(requestId: string, seq: number, text: string | Uint8Array, rest: object = {}): object {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  return { requestId, seq, deltaBase64: encodeBase64(bytes), done: false, error: null, ...rest };
}

async function textOf(body: HttpBody): Promise<string> {
  let text = '';
  for (let piece = await body.next(); piece !== null; piece = await body.next()) {
    text += new TextDecoder().decode(piece);
  }
  return text;
}

describe('HttpBodies', () => {
  test('passes chunks to their body in order', async () => {
    const bodies = new HttpBodies();
    const [a, b] = [bodies.open('a'), bodies.open('b')];
    expect(bodies.receive(delta('a', 1, 'x'))).toBe('routed');
    bodies.receive(delta('b', 1, 'other'));
    const reading = textOf(a);
    bodies.receive(delta('a', 2, 'y'));
    bodies.receive(delta('a', 3, '', { done: true }));
    bodies.receive(delta('b', 2, '', { done: true }));
    expect(await reading).toBe('xy');
    expect(await textOf(b)).toBe('other');
    expect(a.over).toBe(true);
  });

  test('assigns a unique id to each request', () => {
    const bodies = new HttpBodies();
    expect([bodies.newId(), bodies.newId()]).toEqual(['http-1', 'http-2']);
  });

  test('ignores chunks of unknown bodies', () => {
    expect(new HttpBodies().receive(delta('gone', 7, 'x'))).toBe('routed');
  });

  test.each([
    ['null params', null],
    ['no request id', { seq: 1, deltaBase64: '' }],
    ['an invalid seq', { requestId: 'a', seq: 'x', deltaBase64: '' }],
    ['invalid base64', { requestId: 'a', seq: 1, deltaBase64: '!' }],
    ['a chunk that is too large', delta('a', 1, new Uint8Array(MAX_BODY_DELTA_BYTES + 1))],
  ])('rejects a delta with %s', (_, params) => {
    expect(new HttpBodies().receive(params)).toBe('unreadable');
  });

  test('fails a body with a missing chunk', async () => {
    const bodies = new HttpBodies();
    const body = bodies.open('a');
    bodies.receive(delta('a', 1, 'x'));
    bodies.receive(delta('a', 3, 'z'));
    expect(new TextDecoder().decode((await body.next()) ?? undefined)).toBe('x');
    await expect(body.next()).rejects.toMatchObject({ kind: 'protocol' });
    expect(body.over).toBe(false);
  });

  test('ends a body with the error of the server after the earlier chunks', async () => {
    const bodies = new HttpBodies();
    const body = bodies.open('a');
    bodies.receive(delta('a', 1, 'x'));
    bodies.receive(delta('a', 2, '', { done: true, error: 'cut off' }));
    expect(await body.next()).not.toBeNull();
    await expect(body.next()).rejects.toThrow('cut off');
    expect(body.over).toBe(true);
  });

  test('fails all bodies with the connection', async () => {
    const bodies = new HttpBodies();
    const [a, b] = [bodies.open('a'), bodies.open('b')];
    const reading = a.next();
    bodies.failAll(new ClientError('disconnected', 'lost'));
    await expect(reading).rejects.toThrow('lost');
    await expect(b.next()).rejects.toThrow('lost');
    expect(a.over).toBe(true);
  });

  test('joins many small chunks without losing any', async () => {
    const bodies = new HttpBodies();
    const body = bodies.open('a');
    const count = BODY_QUEUE_MAX_CHUNKS * 3;
    for (let seq = 1; seq <= count; seq++) bodies.receive(delta('a', seq, 'x'));
    bodies.receive(delta('a', count + 1, '', { done: true }));
    expect(await textOf(body)).toBe('x'.repeat(count));
  });

  test('fails an unread body when too many bytes wait', async () => {
    const bodies = new HttpBodies();
    const [greedy, modest] = [bodies.open('greedy'), bodies.open('modest')];
    bodies.receive(delta('modest', 1, 'kept'));
    const piece = new Uint8Array(MAX_BODY_DELTA_BYTES);
    for (let seq = 1; seq <= BODY_QUEUES_MAX_BYTES / piece.length; seq++) {
      bodies.receive(delta('greedy', seq, piece));
    }
    greedy.drop();
    expect(await greedy.next()).toBeNull();
    const second = bodies.open('second');
    for (let seq = 1; seq <= BODY_QUEUES_MAX_BYTES / piece.length; seq++) {
      bodies.receive(delta('second', seq, piece));
    }
    const reading = async () => {
      while ((await second.next()) !== null);
    };
    await expect(reading()).rejects.toMatchObject({ kind: 'overloaded' });
    bodies.receive(delta('modest', 2, '', { done: true }));
    expect(await textOf(modest)).toBe('kept');
  });
});
