import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SocksHandshake, type SocksProgress, socksReply } from '../../../../src/cli/ports/socks-handshake.ts';

const GREETING = [5, 1, 0];
const GREETED = [5, 0];

/** Feeds the bytes in portions that end at `cuts`. Returns everything that was answered and the last progress. */
function feed(bytes: readonly number[], cuts: readonly number[] = []) {
  const handshake = new SocksHandshake();
  const answers: number[] = [];
  const ends = [...cuts, bytes.length];
  let from = 0;
  let last: SocksProgress = { answer: new Uint8Array(), target: null, problem: null };
  for (const end of ends) {
    if (last.target !== null || last.problem !== null) return { answers, ...last, from, handshake };
    last = handshake.push(Uint8Array.from(bytes.slice(from, end)));
    answers.push(...last.answer);
    from = end;
  }
  return { answers, ...last, from, handshake };
}

function request(address: readonly number[], port = 443, command = 1): number[] {
  return [5, command, 0, ...address, port >> 8, port & 255];
}

function name(text: string): number[] {
  return [3, text.length, ...Buffer.from(text, 'latin1')];
}

const TARGETS: Readonly<Record<string, { address: readonly number[]; host: string }>> = {
  'an IPv4 address': { address: [1, 10, 0, 0, 7], host: '10.0.0.7' },
  'an IPv6 address': { address: [4, ...Array(15).fill(0), 1], host: '::1' },
  'a long IPv6 address': {
    address: [4, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xca, 0xfe, 0, 2],
    host: '2001:db8::cafe:2',
  },
  'a name': { address: name('db.internal'), host: 'db.internal' },
  'the longest name': { address: name('a'.repeat(255)), host: 'a'.repeat(255) },
  'an address as a name': { address: name('::1'), host: '::1' },
};

describe.each(Object.entries(TARGETS))('%s', (_, { address, host }) => {
  const bytes = [...GREETING, ...request(address)];

  test('is found, wherever the bytes are split', () => {
    for (let cut = 0; cut <= bytes.length; cut++) {
      const { answers, target, problem } = feed(bytes, [cut]);
      expect({ cut, answers, target, problem }).toEqual({
        cut,
        answers: GREETED,
        target: { host, port: 443 },
        problem: null,
      });
    }
  });

  test('is found in single bytes', () => {
    const { answers, target } = feed(
      bytes,
      bytes.map((_, index) => index + 1),
    );
    expect({ answers, target }).toEqual({ answers: GREETED, target: { host, port: 443 } });
  });

  test('is not found while a byte is missing', () => {
    for (let length = 0; length < bytes.length; length++) {
      const { target, problem } = feed(bytes.slice(0, length));
      expect({ length, target, problem }).toEqual({ length, target: null, problem: null });
    }
  });
});

test('keeps what follows the request for the target', () => {
  const bytes = [...GREETING, ...request(name('a.b')), 1, 2, 3];
  for (let cut = 0; cut <= bytes.length; cut++) {
    const { handshake, from } = feed(bytes, [cut]);
    expect([...handshake.rest, ...bytes.slice(from)]).toEqual([1, 2, 3]);
  }
});

test('accepts a client that offers several methods', () => {
  expect(feed([5, 3, 2, 1, 0, ...request([1, 1, 2, 3, 4])])).toMatchObject({
    answers: GREETED,
    target: { host: '1.2.3.4', port: 443 },
  });
});

const REFUSED: Readonly<
  Record<string, { bytes: readonly number[]; answers: readonly number[]; problem: RegExp }>
> = {
  'SOCKS 4': { bytes: [4, 1, 0, 80], answers: [], problem: /SOCKS 4; use socks5h/ },
  HTTP: { bytes: [...Buffer.from('GET / HTTP/1.1\r\n\r\n')], answers: [], problem: /perhaps HTTP/ },
  TLS: { bytes: [22, 3, 1], answers: [], problem: /does not speak SOCKS 5$/ },
  'a password': { bytes: [5, 1, 2], answers: [5, 255], problem: /wants to authenticate/ },
  'no method': { bytes: [5, 0], answers: [5, 255], problem: /wants to authenticate/ },
  'another version behind the greeting': {
    bytes: [...GREETING, 4, 1, 0, 1],
    answers: GREETED,
    problem: /invalid SOCKS request/,
  },
  BIND: {
    bytes: [...GREETING, ...request([1, 1, 2, 3, 4], 80, 2)],
    answers: [...GREETED, ...socksReply(7)],
    problem: /CONNECT/,
  },
  'UDP ASSOCIATE': {
    bytes: [...GREETING, ...request([1, 1, 2, 3, 4], 80, 3)],
    answers: [...GREETED, ...socksReply(7)],
    problem: /CONNECT/,
  },
  'an unknown type of address': {
    bytes: [...GREETING, ...request([2, 1, 2])],
    answers: [...GREETED, ...socksReply(8)],
    problem: /unknown type/,
  },
  'an empty name': {
    bytes: [...GREETING, ...request(name(''))],
    answers: [...GREETED, ...socksReply(8)],
    problem: /empty name/,
  },
  'a name with a control character': {
    bytes: [...GREETING, ...request(name('a\u0000b'))],
    answers: [...GREETED, ...socksReply(1)],
    problem: /invalid host name/,
  },
  'port 0': {
    bytes: [...GREETING, ...request([1, 1, 2, 3, 4], 0)],
    answers: [...GREETED, ...socksReply(1)],
    problem: /invalid host name or port/,
  },
};

test.each(Object.entries(REFUSED))(
  'refuses %s, wherever the bytes are split',
  (_, { bytes, answers, problem }) => {
    for (let cut = 0; cut <= bytes.length; cut++) {
      const result = feed(bytes, [cut]);
      expect({ cut, answers: result.answers, target: result.target }).toEqual({ cut, answers, target: null });
      expect(result.problem).toMatch(problem);
    }
  },
);

test('any bytes lead to a decision after at most two messages, however they are split', () => {
  const portions = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 40 });
  fc.assert(
    fc.property(portions, fc.boolean(), (chunks, isGreeted) => {
      const handshake = new SocksHandshake();
      if (isGreeted) handshake.push(Uint8Array.from(GREETING));
      let taken = 0;
      for (const chunk of chunks) {
        taken += chunk.length;
        const { target, problem } = handshake.push(chunk);
        if (target !== null || problem !== null) return;
        // The longest greeting has 257 bytes and the longest request 262.
        expect(taken).toBeLessThan(257 + 262);
      }
    }),
    { numRuns: 300 },
  );
});
