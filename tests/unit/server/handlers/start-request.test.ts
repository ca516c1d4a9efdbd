import { expect, test, vi } from 'vitest';
import type { ParamsOf } from '../../../../src/protocol/registry.ts';
import { METHODS } from '../../../../src/protocol/registry.ts';
import { validateParams } from '../../../../src/protocol/validate.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../../src/server/config/config.ts';
import { checkCommand, checkStart } from '../../../../src/server/handlers/start-request.ts';

const program = { argv: ['/bin/echo', 'hi'], cwd: 'file:///tmp', env: { A: '1' } };
const flat = { processId: 'p', ...program, tty: false };

function spec(params: unknown, config: Partial<ExecServerConfig> = {}) {
  const settings = { ...DEFAULT_CONFIG, ...config };
  const valid: ParamsOf<'process/start'> = validateParams(METHODS['process/start'].params, params);
  return checkStart(valid, settings, null).spec;
}

test('reduces the three request forms to the same program', () => {
  const io = { type: 'pipe', stdin: 'open' };
  const expected = {
    program: '/bin/echo',
    argv: ['/bin/echo', 'hi'],
    cwd: '/tmp',
    env: { A: '1' },
    io: { kind: 'pipe', stdin: 'open' },
  };
  expect(spec({ ...flat, pipeStdin: true })).toEqual(expected);
  expect(spec({ direct: { processId: 'p', ...program, io } })).toEqual(expected);
  expect(spec({ prepared: { processId: 'p', request: program, io } })).toEqual(expected);
});

test.each([
  ['an arg0', { arg0: 'zero' }, { program: '/bin/echo', argv: ['zero', 'hi'] }],
  ['an empty arg0', { arg0: '' }, { argv: ['', 'hi'] }],
  ['a null arg0', { arg0: null }, { argv: ['/bin/echo', 'hi'] }],
  ['no stdin', {}, { io: { kind: 'pipe', stdin: 'closed' } }],
  ['a terminal', { tty: true }, { io: { kind: 'pty', rows: 24, cols: 80 } }],
  [
    'a terminal with a size',
    { tty: true, size: { rows: 1, cols: 2 } },
    { io: { kind: 'pty', rows: 1, cols: 2 } },
  ],
  ['an empty program', { argv: [''] }, { program: '' }],
])('reads a request with %s', (_name, params, expected) => {
  expect(spec({ ...flat, ...params })).toMatchObject(expected);
});

test('sets SHELL for a terminal unless the request sets it', () => {
  expect(spec({ ...flat, tty: true }).env).toEqual({ A: '1', SHELL: expect.stringMatching(/^\//) });
  expect(spec({ ...flat, tty: true, env: { SHELL: '' } }).env).toEqual({ SHELL: '' });
  expect(spec(flat).env).toEqual({ A: '1' });
});

test('accepts any name for a variable', () => {
  const env = JSON.parse('{"__proto__":"x","constructor":"y"}') as object;
  const envPolicy = {
    inherit: 'none',
    ignoreDefaultExcludes: false,
    exclude: [],
    set: JSON.parse('{"__proto__":"set"}') as object,
    includeOnly: ['*'],
  };
  const metadata = { toolCallId: 'id' };
  expect(Object.entries(spec({ ...flat, env }).env)).toContainEqual(['__proto__', 'x']);
  expect(Object.entries(spec({ ...flat, env, envPolicy, metadata }).env)).toContainEqual(['__proto__', 'x']);
  expect(Object.entries(spec({ ...flat, envPolicy, metadata }).env)).toContainEqual(['__proto__', 'set']);
});

test('applies an environment policy to the environment of the server', () => {
  vi.stubEnv('START_REQUEST_TEST_VARIABLE', 'inherited');
  const envPolicy = {
    inherit: 'all',
    ignoreDefaultExcludes: false,
    exclude: [],
    set: {},
    includeOnly: ['START_REQUEST_TEST*'],
  };
  expect(spec({ ...flat, envPolicy }).env).toEqual({ A: '1', START_REQUEST_TEST_VARIABLE: 'inherited' });
  vi.unstubAllEnvs();
});

test.each<[string, object, Partial<ExecServerConfig>, number, string]>([
  ['no command', { argv: [] }, {}, 0, 'argv must not be empty'],
  ['a native path as cwd', { cwd: '/tmp' }, {}, 0, 'expected a file: URI'],
  ['a bad path and no command', { cwd: '/tmp', argv: [] }, {}, 0, 'expected a file: URI'],
  ['an invalid sandbox', { sandbox: {} }, {}, -32602, 'params.sandbox'],
  ['an invalid proxy', { networkProxy: {} }, {}, -32602, 'params.networkProxy'],
  ['direct starts that are switched off', {}, { allowDirectExec: false }, -32600, 'allowDirectExec'],
])('refuses %s', (_name, params, config, code, message) => {
  expect(() => spec({ ...flat, ...params }, config)).toThrow(message);
  if (code !== 0)
    expect(() => spec({ ...flat, ...params }, config)).toThrow(expect.objectContaining({ code }));
});

test('switches prepared starts off separately', () => {
  const prepared = { prepared: { processId: 'p', request: program, io: { type: 'pipe', stdin: 'closed' } } };
  expect(() => spec(prepared, { allowPreparedExec: false })).toThrow('allowPreparedExec');
  expect(spec(prepared, { allowDirectExec: false }).program).toBe('/bin/echo');
});

test('accepts native paths when acceptNativePaths is set', () => {
  expect(spec({ ...flat, cwd: '/tmp' }, { acceptNativePaths: true }).cwd).toBe('/tmp');
  expect(spec(flat, { acceptNativePaths: true }).cwd).toBe('/tmp');
  expect(() => spec({ ...flat, cwd: 'tmp' }, { acceptNativePaths: true })).toThrow('expected a file: URI');
});

test('adds the trace of the request to the environment, below the variables of the request', () => {
  const valid: ParamsOf<'process/start'> = validateParams(METHODS['process/start'].params, flat);
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const trace = { traceparent, tracestate: null };
  expect(checkStart(valid, DEFAULT_CONFIG, trace).spec.env).toMatchObject({
    A: '1',
    TRACEPARENT: traceparent,
  });
});

test('reads command/exec with a native path and its output cap', () => {
  const params = { processId: 'p', argv: ['/bin/echo'], cwd: '/tmp', env: {}, tty: false, outputBytesCap: 5 };
  const valid: ParamsOf<'command/exec'> = validateParams(METHODS['command/exec'].params, params);
  expect(checkCommand(valid, DEFAULT_CONFIG)).toMatchObject({
    dialect: 'command',
    outputBytesCap: 5,
    spec: { cwd: '/tmp', io: { kind: 'pipe', stdin: 'closed' } },
  });
  expect(() => checkCommand(valid, { ...DEFAULT_CONFIG, allowDirectExec: false })).toThrow('allowDirectExec');
});
