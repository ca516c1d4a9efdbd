import { describe, expect, test } from 'vitest';
import { METHODS, type Method } from '../../../src/protocol/registry.ts';
import { validateParams } from '../../../src/protocol/validate.ts';

const start = { processId: 'p', argv: ['true'], cwd: 'file:///tmp', env: {}, tty: false };
const policy = { inherit: 'all', ignoreDefaultExcludes: false, exclude: [], set: {}, includeOnly: [] };
const direct = { processId: 'p', argv: [], cwd: 'file:///', env: {}, io: { type: 'pipe', stdin: 'open' } };

const validate = (method: Method, params: unknown) => validateParams(METHODS[method].params, params);

describe('errors name the field and the cause', () => {
  test.each<[Method, unknown, string]>([
    ['initialize', undefined, 'params: missing, expected object'],
    ['initialize', null, 'params: missing, expected object'],
    ['initialize', ['me'], 'params: expected object'],
    ['initialize', { clientName: 5 }, 'params.clientName: expected string'],
    ['initialize', { clientName: 'x', resumeSessionId: 5 }, 'params.resumeSessionId: expected string'],
    [
      'initialize',
      { detachedSessionTtlMs: -2 },
      'params.detachedSessionTtlMs: expected an unsigned integer, or -1 for no limit',
    ],
    ['environment/info', [], 'params: this method takes no parameters'],
    ['environment/status', { a: 1 }, 'params: this method takes no parameters'],
    ['process/start', {}, 'params.processId: missing, expected string'],
    ['process/start', { ...start, argv: undefined }, 'params.argv: missing, expected array'],
    ['process/start', { ...start, argv: 'true' }, 'params.argv: expected array'],
    ['process/start', { ...start, argv: ['a', 5] }, 'params.argv.1: expected string'],
    ['process/start', { ...start, env: null }, 'params.env: expected record'],
    ['process/start', { ...start, env: [] }, 'params.env: expected record'],
    ['process/start', { ...start, env: { A: 1 } }, 'params.env.A: expected string'],
    ['process/start', { ...start, tty: 0 }, 'params.tty: expected boolean'],
    ['process/start', { ...start, pipeStdin: null }, 'params.pipeStdin: expected boolean'],
    [
      'process/start',
      { ...start, enforceManagedNetwork: null },
      'params.enforceManagedNetwork: expected boolean',
    ],
    ['process/start', { ...start, arg0: 5 }, 'params.arg0: expected string'],
    [
      'process/start',
      { ...start, size: { rows: 0, cols: 1 } },
      'params.size.rows: expected an integer from 1 to 65535',
    ],
    ['process/start', { ...start, metadata: { threadId: 'x' } }, 'params.metadata.threadId: expected a UUID'],
    ['process/start', { ...start, metadata: { threadId: '' } }, 'params.metadata.threadId: expected a UUID'],
    [
      'process/start',
      { ...start, envPolicy: { ...policy, inherit: 'All' } },
      'params.envPolicy.inherit: expected "all" or "core" or "none"',
    ],
    [
      'process/start',
      { ...start, envPolicy: { ...policy, set: undefined } },
      'params.envPolicy.set: missing, expected record',
    ],
    ['process/start', { direct: { ...direct, argv: 5 } }, 'params.direct.argv: expected array'],
    [
      'process/start',
      { direct: { ...direct, io: { type: 'x' } } },
      'params.direct.io.type: none of the accepted forms (see `type`)',
    ],
    [
      'process/start',
      { prepared: { processId: 'p', request: {}, io: direct.io } },
      'params.prepared.request.argv: missing, expected array',
    ],
    ['process/read', { processId: 'p', afterSeq: 0.5 }, 'params.afterSeq: expected an unsigned integer'],
    ['process/read', { processId: 'p', waitMs: '1' }, 'params.waitMs: expected number'],
    [
      'process/write',
      { processId: 'p', chunk: '', writeId: '' },
      'params.writeId: writeId must not be empty',
    ],
    ['process/write', { processId: 'p', chunk: '', writeId: null }, 'params.writeId: expected string'],
    ['process/write', { processId: 'p', chunk: '', writeId: 5 }, 'params.writeId: expected string'],
    ['process/signal', { processId: 'p', signal: 2 }, 'params.signal: expected string'],
    [
      'process/terminate',
      { processId: 'p', mode: { type: 'slow' } },
      'params.mode.type: none of the accepted forms (see `type`)',
    ],
    [
      'process/terminate',
      { processId: 'p', mode: { type: 'graceful' } },
      'params.mode.timeoutMs: missing, expected number',
    ],
    [
      'process/resize',
      { processId: 'p', rows: 1, cols: 65_536 },
      'params.cols: expected an integer from 1 to 65535',
    ],
    ['process/wait', { processId: 'p', until: 'dead' }, 'params.until: expected "exited" or "closed"'],
  ])('%s %j', (method, params, message) => {
    const parsed: unknown = params === undefined ? undefined : JSON.parse(JSON.stringify(params));
    expect(() => validate(method, parsed)).toThrow(expect.objectContaining({ code: -32602, message }));
  });
});

test.each<[Method, unknown, unknown]>([
  ['initialize', {}, { clientName: '' }],
  ['initialize', { clientName: 'x', unknown: 1 }, { clientName: 'x' }],
  ['initialize', { resumeSessionId: null }, { clientName: '', resumeSessionId: null }],
  ['environment/status', null, {}],
  ['process/start', start, { ...start, pipeStdin: false, enforceManagedNetwork: false }],
  ['process/start', { direct, extra: 1 }, { direct }],
  [
    'process/read',
    { processId: '', afterSeq: null, maxBytes: 0 },
    { processId: '', afterSeq: null, maxBytes: 0 },
  ],
  ['process/wait', { processId: 'p' }, { processId: 'p', until: 'closed' }],
])('accepts %s %j, adds defaults and drops unknown members', (method, params, expected) => {
  expect(validate(method, params)).toEqual(expected);
});

test('shortens and cleans a hostile field name in an error', () => {
  const env = { [`\u001b[31m${'x'.repeat(500)}`]: 5 };
  const message = messageOf(() => validate('process/start', { ...start, env }));
  expect(message).toBe(`params.env.?[31m${'x'.repeat(55)}…: expected string`);
});

test('hostile keys in params do not change a prototype', () => {
  const params: unknown = JSON.parse(
    '{"processId":"p","argv":[],"cwd":"file:///","tty":false,"env":{"__proto__":"x","constructor":"y"},"__proto__":{"pipeStdin":true}}',
  );
  const validated = validate('process/start', params) as Record<string, unknown>;
  expect(validated.pipeStdin).toBe(false);
  expect((validated.env as Record<string, string>).constructor).toBe('y');
  expect(({} as Record<string, unknown>).pipeStdin).toBeUndefined();
});

function messageOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was refused');
}
