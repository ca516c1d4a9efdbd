import { existsSync, mkdirSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { caseProblems, loadCases, loadDeviations } from './cases.mjs';
import { mismatch, patternProblems } from './match.mjs';
import { type Case, formatFailure, type Result, runCase, type Step, stepFor } from './runner.mjs';

const SESSION = '0123abcd-0123-4567-89ab-0123456789ab';
const EVENTS = [
  { method: 'process/output', params: { processId: 'p', seq: 2, stream: 'stdout', chunk: 'Yg==' } },
  { method: 'process/output', params: { processId: 'p', seq: 1, stream: 'stdout', chunk: 'YQ==' } },
  { method: 'process/closed', params: { processId: 'p', seq: 4 } },
  { method: 'process/exited', params: { processId: 'p', seq: 3, exitCode: 5, sandboxDenied: false } },
];

/** A server that does what the method name says, well or badly. */
const ANSWERS: Record<string, (socket: WebSocket, id: unknown, params: Step) => unknown[]> = {
  initialize: (_, id) => [{ id, result: { sessionId: SESSION } }],
  answer: (_, id) => [{ id, result: { a: 1, b: 'two' } }],
  refuse: (_, id) => [{ error: { code: -32600, message: 'no' }, id }],
  twice: (_, id) => [
    { id, result: {} },
    { id, result: {} },
  ],
  silent: () => [],
  hangUp: (socket) => {
    socket.close(1001, 'bye');
    return [];
  },
  events: (_, id) => [{ id, result: {} }, ...EVENTS],
  gap: (_, id) => [{ id, result: {} }, ...EVENTS.filter(({ params }) => params.seq !== 1)],
  repeatedSeq: (_, id) => [{ id, result: {} }, EVENTS[0], EVENTS[0]],
  echo: (_, id, params) => [{ id, result: params }],
  mkdir: (_, id, params) => {
    mkdirSync(String(params.path), { recursive: true });
    made.push(String(params.path));
    return [{ id, result: {} }];
  },
  'process/start': (_, id, { processId }) => [{ id, result: { processId, sandboxType: 'none' } }],
  'process/terminate': (_, id) => [{ id, result: { running: true } }],
  jsonrpc: (_, id) => [{ jsonrpc: '2.0', id, result: {} }],
};

/** What `mkdir` made. */
const made: string[] = [];

let server: WebSocketServer;
let url: string;

beforeAll(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      const { id, method, params } = JSON.parse(data.toString());
      for (const message of ANSWERS[method]?.(socket, id, params) ?? []) socket.send(JSON.stringify(message));
    });
  });
  await new Promise((resolve) => server.once('listening', resolve));
  url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  for (const socket of server.clients) socket.terminate();
  server.close();
});

function play(...steps: Step[]): Promise<Result> {
  return runCase({ name: 'a-case', steps }, { url, server: 'exec-server', deadlineMs: 300 });
}

function failureOf(result: Result): string {
  return result.status === 'failed' ? formatFailure(result) : `the case ${result.status}`;
}

const collect = { collect: 'p', exitCode: 5, stdout: 'ab', order: 'oec', chunks: 2 };

describe('a case', () => {
  test.each<[string, Step[]]>([
    ['a right result', [{ request: 'answer', result: { a: 1, b: 'two' } }]],
    ['a right error', [{ request: 'refuse', error: -32600 }]],
    ['events out of order', [{ request: 'events', result: {} }, collect]],
    [
      'notifications that were taken',
      [
        { request: 'events', result: {} },
        { notification: 'process/exited', of: 'p' },
        { noNotification: 'process/exited' },
        { noNotification: 'process/started' },
      ],
    ],
    [
      'messages in one packet',
      [
        {
          together: [
            { id: 'first', method: 'answer' },
            { id: 'second', method: 'refuse' },
          ],
        },
        { response: 'first', result: { a: 1, b: 'two' } },
        { response: 'second', error: -32600 },
        { arrived: ['first', 'second'] },
      ],
    ],
    ['a close', [{ send: { id: 1, method: 'hangUp' } }, { closed: 'main', code: 1001, reason: 'bye' }]],
    [
      'a saved value',
      [
        { request: 'answer', result: { $any: true }, save: { x: 'result.a' } },
        { request: 'answer', result: { a: '{{x}}', b: 'two' } },
      ],
    ],
    ['the sandbox that was asked for', [{ start: 'p', sh: '' }]],
    [
      'the expected denial',
      [
        { request: 'events', result: {} },
        { ...collect, sandboxDenied: false },
      ],
    ],
    [
      'a loop',
      [
        { repeat: 3, steps: [{ request: 'answer', id: '{{i}}', result: { $any: true } }] },
        { arrived: ['1', '2', '3'] },
      ],
    ],
  ])('passes with %s', async (_, steps) => {
    expect(await play(...steps)).toEqual({ name: 'a-case', status: 'passed' });
  });

  test.each<[string, string, Step[]]>([
    [
      'a wrong value',
      'reply, at result.a: expected 2, actual 1',
      [{ request: 'answer', result: { a: 2, b: 'two' } }],
    ],
    [
      'a missing member',
      'result.c: expected 3, actual nothing',
      [{ request: 'answer', result: { a: 1, b: 'two', c: 3 } }],
    ],
    [
      'a member too many',
      'result.b: expected nothing, actual two',
      [{ request: 'answer', result: { a: 1 } }],
    ],
    ['a wrong code', 'error.code: expected -32602, actual -32600', [{ request: 'refuse', error: -32602 }]],
    ['an error instead of a result', 'reply, at', [{ request: 'refuse', result: { $any: true } }]],
    ['a result instead of an error', 'reply, at', [{ request: 'answer', error: -32600 }]],
    ['no answer', 'no response to id', [{ request: 'silent', result: {} }]],
    ['a hung-up connection', 'main ended before response', [{ request: 'hangUp', result: {} }]],
    ['a connection that stays open', 'no end of the connection', [{ closed: 'main' }]],
    [
      'another close code',
      'close code: expected 1000, actual 1001',
      [{ send: { id: 1, method: 'hangUp' } }, { closed: 'main', code: 1000 }],
    ],
    [
      'an answer too many',
      'unexpected replies',
      [
        { request: 'twice', result: {} },
        { request: 'answer', result: { $any: true } },
      ],
    ],
    ['a jsonrpc member', 'broke a general rule', [{ request: 'jsonrpc', reply: { $any: true } }]],
    ['a gap in the events', 'no complete events', [{ request: 'gap', result: {} }, collect]],
    [
      'a seq used twice',
      'broke a general rule',
      [
        { request: 'repeatedSeq', result: {} },
        { output: 'p', from: 2, text: 'b' },
      ],
    ],
    [
      'a wrong exit code',
      'exitCode: expected 0, actual 5',
      [
        { request: 'events', result: {} },
        { ...collect, exitCode: 0 },
      ],
    ],
    [
      'wrong output',
      'stdout: expected abc',
      [
        { request: 'events', result: {} },
        { ...collect, stdout: 'abc' },
      ],
    ],
    [
      'unexpected output',
      'stdout: expected , actual',
      [
        { request: 'events', result: {} },
        { collect: 'p', exitCode: 5 },
      ],
    ],
    [
      'a wrong order of events',
      'order of events',
      [
        { request: 'events', result: {} },
        { ...collect, order: 'eoc' },
      ],
    ],
    [
      'a wrong order of replies',
      'order of the responses',
      [
        { request: 'answer', id: 'a', result: { $any: true } },
        { request: 'answer', id: 'b', result: { $any: true } },
        { arrived: ['b', 'a'] },
      ],
    ],
    [
      'events of a silent process',
      'events of p',
      [{ request: 'events', result: {} }, { notification: 'process/closed', of: 'p' }, { noEvents: 'p' }],
    ],
    [
      'a notification that must not come',
      'notifications process/output',
      [
        { request: 'events', result: {} },
        { notification: 'process/output', of: 'p' },
        { notification: 'process/closed', of: 'p' },
        { noNotification: 'process/output' },
      ],
    ],
    [
      'output that never comes',
      'output of p',
      [
        { request: 'events', result: {} },
        { output: 'p', text: 'abc' },
      ],
    ],
    [
      'wrong params of an event',
      'params, at exitCode',
      [
        { request: 'events', result: {} },
        {
          notification: 'process/exited',
          of: 'p',
          params: { processId: 'p', seq: 3, exitCode: 6, sandboxDenied: false },
        },
      ],
    ],
    ['a wrong http status', 'status: expected 200, actual 426', [{ http: { path: '/' }, status: 200 }]],
    [
      'an answer that comes too soon',
      'elapsed ms',
      [{ request: 'answer', result: { $any: true }, elapsedMs: { $range: [5000, 9000] } }],
    ],
    [
      'another sandbox than the one asked for',
      'result.sandboxType: expected linuxSeccomp, actual none',
      [{ start: 'p', sh: '', params: { sandbox: {} } }],
    ],
    [
      'a wrong denial flag',
      'sandboxDenied: expected true, actual false',
      [
        { request: 'events', result: {} },
        { ...collect, sandboxDenied: true },
      ],
    ],
    ['an unknown variable', 'unknown variable {{nothing}}', [{ request: 'answer', result: '{{nothing}}' }]],
  ])('fails with %s', async (_, expected, steps) => {
    expect(failureOf(await play(...steps))).toContain(expected);
  });

  test('can define variables, such as a short form of a sandbox', async () => {
    const policy = {
      $sandbox: {
        read: [':root'],
        write: [':project_roots/a'],
        deny: ['{{tree}}/b', 'glob:/c/*'],
        depth: 2,
        roots: ['/r'],
        with: { useLegacyLandlock: false },
      },
    };
    const entries = [
      { path: { type: 'special', value: { kind: 'root' } }, access: 'read' },
      { path: { type: 'special', value: { kind: 'project_roots', subpath: 'a' } }, access: 'write' },
      { path: { type: 'path', path: 'file://{{tree}}/b' }, access: 'deny' },
      { path: { type: 'glob_pattern', pattern: '/c/*' }, access: 'deny' },
    ];
    const result = {
      permissions: {
        type: 'managed',
        file_system: { type: 'restricted', entries, glob_scan_max_depth: 2 },
        network: 'restricted',
      },
      cwd: 'file:///r',
      workspaceRoots: ['file:///r'],
      windowsSandboxLevel: 'disabled',
      useLegacyLandlock: false,
    };
    const steps = [{ request: 'echo', params: '{{policy}}', result }];
    const played = await runCase(
      { name: 'a-case', variables: { policy }, steps },
      { url, server: 'exec-server' },
    );
    expect(played).toEqual({ name: 'a-case', status: 'passed' });
  });

  test('leaves no files, also when it fails', async () => {
    const steps = ['{{file}}', '{{tree}}/a'].map((path) => ({
      request: 'mkdir',
      params: { path },
      result: {},
    }));
    const result = await play(...steps, { request: 'answer', result: {} });
    expect(result.status).toBe('failed');
    expect(made).toHaveLength(2);
    expect(made.filter((path) => existsSync(path))).toEqual([]);
  });

  test('that needs what the server lacks is skipped, not passed', async () => {
    const needy: Case = { name: 'needy', needs: ['something'], steps: [{ request: 'answer', result: {} }] };
    expect(await runCase(needy, { url, server: 'exec-server' })).toMatchObject({ status: 'skipped' });
    const own: Case = { name: 'own', server: { args: [] }, steps: [{ request: 'answer', result: {} }] };
    expect(await runCase(own, { url, server: 'exec-server' })).toMatchObject({ status: 'skipped' });
  });
});

test('an alternative of a step replaces the expectation for its server only', () => {
  const step = { request: 'x', result: {}, onReference: { error: -1 }, onOurs: { within: 5 } };
  expect(stepFor(step, 'reference')).toEqual({ request: 'x', error: -1 });
  expect(stepFor(step, 'exec-server')).toEqual({ request: 'x', result: {}, within: 5 });
  expect(stepFor({ quiet: 'main', only: 'reference' }, 'exec-server')).toBeUndefined();
});

test.each<[string, unknown, unknown, unknown]>([
  ['$any', { $any: true }, 0, undefined],
  ['$type', { $type: 'integer' }, 3, 3.5],
  ['$uuid', { $uuid: true }, SESSION, SESSION.toUpperCase()],
  ['$matches', { $matches: '^a.c$' }, 'a\nc', 'abcd'],
  ['$includes of a text', { $includes: 'b' }, 'abc', 'acd'],
  ['$includes of a list', { $includes: { $partial: { a: 1 } } }, [{ a: 1, b: 2 }], [{ a: 2 }]],
  ['$not', { $not: 1 }, 2, 1],
  ['$oneOf', { $oneOf: [1, 2] }, 2, 3],
  ['$allOf', { $allOf: [{ $includes: 'a' }, { $includes: 'b' }] }, 'ab', 'a'],
  ['$sequence', { $sequence: ['a', 'b'] }, 'xaxb', 'ba'],
  ['$range', { $range: [1, 3] }, 3, 4],
  ['$length', { $length: 2 }, [1, 2], [1]],
  ['$each', { $each: { $type: 'boolean' } }, { a: true }, { a: true, b: 1 }],
  ['$unordered', { $unordered: [1, { $type: 'string' }] }, ['a', 1], ['a', 1, 1]],
  ['$unordered with one too few', { $unordered: [1, 1] }, [1, 1], [1]],
  ['$keys', { $keys: ['a', 'b'] }, { a: 1, b: 2 }, { b: 2, a: 1 }],
  ['$partial', { $partial: { a: 1 } }, { a: 1, b: 2 }, { b: 2 }],
  ['$absent', { $partial: { a: { $absent: true } } }, {}, { a: null }],
  ['$optional', { a: { $optional: 1 } }, {}, { a: 2 }],
  ['$lines', { $lines: ['b', 'a'] }, 'a\nb\n', 'a\nb\nc\n'],
  ['$base64Text', { $base64Text: 'a' }, 'YQ==', 'YQ'],
  ['$base64', { $base64: { $hex: '00ff' } }, 'AP8=', 'AP8'],
  ['$base64 of other bytes', { $base64: { $bytes: 2 } }, 'AP8=', 'AP8A'],
  ['$hex', { $hex: '00ff' }, Buffer.from([0, 255]), Buffer.from([0])],
  ['$bytes', { $bytes: 2 }, Buffer.from('ab'), Buffer.from('abc')],
  ['$output', { $output: { stdout: 'a' } }, [chunk(1, 'YQ==')], [chunk(1, 'YQ=='), chunk(1, 'YQ==')]],
  ['a list', [1, 2], [1, 2], [1, 2, 3]],
  ['null', null, null, {}],
])('the pattern %s accepts the right and rejects the wrong value', (_, pattern, right, wrong) => {
  expect(mismatch(pattern, right)).toBeUndefined();
  expect(mismatch(pattern, wrong)).toBeDefined();
});

function chunk(seq: number, bytes: string): unknown {
  return { seq, stream: 'stdout', chunk: bytes };
}

describe('the recorded cases', () => {
  const good: Case = { name: 'good', about: 'a rule', steps: [{ request: 'x', result: {} }] };
  const deviations = { known: { reason: 'why', decision: 'docs/decisions/known.md' } };
  const shown: Case = { ...good, name: 'shown', only: 'reference', deviation: 'known' };

  test('are sound, enough, and show every deviation', () => {
    const cases = loadCases();
    expect(caseProblems(cases, loadDeviations())).toEqual([]);
    expect(cases.filter(({ only }) => only !== 'exec-server').length).toBeGreaterThan(1100);
  });

  test.each<[string, object]>([
    ['the name is used twice', { name: 'shown' }],
    ['the name is not kebab-case', { name: 'Not Kebab' }],
    ['has no `about` text', { about: '' }],
    ['unknown member colour', { colour: 'red' }],
    ['nothing can fail', { steps: [{ send: { method: 'initialized' } }] }],
    ['has no verb', { steps: [...good.steps, { jump: 'high' }] }],
    ['unknown option expect', { steps: [{ request: 'x', result: {}, expect: 1 }] }],
    ['needs exactly one of', { steps: [{ request: 'x' }] }],
    ['bad matcher $anything', { steps: [{ request: 'x', result: { $anything: true } }] }],
    ['names no deviation', { only: 'reference' }],
    ['unknown deviation odd', { only: 'reference', deviation: 'odd' }],
    ['is the same for both servers', { deviation: 'known' }],
  ])('are refused when %s', (problem, change) => {
    const problems = caseProblems([shown, { ...good, ...change }], deviations);
    expect(problems.join('\n')).toContain(problem);
  });

  test('are refused when a deviation is shown by none or lacks its decision', () => {
    expect(caseProblems([good], deviations)).toEqual(['deviation known: no case shows it']);
    const bare = { known: { reason: 'why', decision: 'README.md' } };
    expect(caseProblems([shown], bare).join()).toContain('needs a reason and a decision');
  });

  test('know every matcher', () => {
    expect(patternProblems([{ $oneOf: [{ $type: 'string' }] }])).toEqual([]);
    expect(patternProblems({ deep: [{ $typ: 'string' }] })).toEqual(['bad matcher $typ']);
  });
});
