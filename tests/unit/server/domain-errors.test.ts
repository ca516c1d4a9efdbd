import { expect, test } from 'vitest';
import { FileError } from '../../../src/files/errors.ts';
import { PathUriError } from '../../../src/files/path-uri.ts';
import { NetworkError } from '../../../src/network/errors.ts';
import { ProcessError, type ProcessErrorCode } from '../../../src/process/errors.ts';
import { SpawnError } from '../../../src/process/spawn/spawner.ts';
import { RpcError } from '../../../src/protocol/errors.ts';
import { domainErrorToRpc } from '../../../src/server/domain-errors.ts';

const codes: Record<ProcessErrorCode, number> = {
  unknownProcess: -32600,
  duplicateProcess: -32600,
  nameInUse: -32600,
  stillRunning: -32600,
  hasClosed: -32600,
  tooManyProcesses: -32600,
  startCancelled: -32600,
  shuttingDown: -32600,
  limitUnavailable: -32600,
  notATerminal: -32600,
  terminalTooLarge: -32600,
  emptyArgv: -32602,
  policyTooLarge: -32602,
  invalidShellSnapshot: -32602,
  unknownSignal: -32602,
  stdinGone: -32603,
  stdinFull: -32603,
  tooManyDrawings: -32001,
};

test.each(Object.entries(codes) as [ProcessErrorCode, number][])(
  'maps the process error %s to %s',
  (code, wireCode) => {
    expect(domainErrorToRpc(new ProcessError(code, 'why'))).toMatchObject({ code: wireCode, message: 'why' });
  },
);

test.each([
  ['a failed start', new SpawnError('ENOENT', 'why'), -32603],
  ['a bad URI', new PathUriError('syntax', 'why'), -32602],
  ['a URI of another system', new PathUriError('foreign', 'why'), -32600],
  ['a missing file', new FileError('notFound', 'why'), -32004],
  ['a refused file operation', new FileError('refused', 'why'), -32600],
  ['a failed file operation', new FileError('failed', 'why'), -32603],
  ['an invalid network request', new NetworkError('invalid', 'why'), -32602],
  ['a refused network request', new NetworkError('refused', 'why'), -32600],
  ['a failed network request', new NetworkError('failed', 'why'), -32603],
  ['a network request beyond a limit', new NetworkError('limit', 'why'), -32001],
])('maps %s to its code', (_name, error, code) => {
  expect(domainErrorToRpc(error)).toMatchObject({ code, message: 'why' });
});

test('returns an RpcError unchanged', () => {
  const error = new RpcError(-32010, 'why', { data: 1 });
  expect(domainErrorToRpc(error)).toBe(error);
});

test.each([
  new Error('a defect'),
  new TypeError('a defect'),
  'thrown text',
  null,
  undefined,
  { code: -32600 },
])('returns null for %s', (error) => {
  expect(domainErrorToRpc(error)).toBeNull();
});
