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
  tooManyProcesses: -32600,
  startCancelled: -32600,
  shuttingDown: -32600,
  limitUnavailable: -32600,
  notATerminal: -32600,
  emptyArgv: -32602,
  policyTooLarge: -32602,
  invalidShellSnapshot: -32602,
  unknownSignal: -32602,
  stdinGone: -32603,
  stdinFull: -32603,
};

test.each(Object.entries(codes) as [ProcessErrorCode, number][])('%s is %s on the wire', (code, wireCode) => {
  expect(domainErrorToRpc(new ProcessError(code, 'why'))).toMatchObject({ code: wireCode, message: 'why' });
});

test.each([
  ['a start that failed', new SpawnError('ENOENT', 'why'), -32603],
  ['a bad URI', new PathUriError('syntax', 'why'), -32602],
  ['a URI of another system', new PathUriError('foreign', 'why'), -32600],
  ['a missing file', new FileError('notFound', 'why'), -32004],
  ['a file operation that makes no sense', new FileError('refused', 'why'), -32600],
  ['a file operation that failed', new FileError('failed', 'why'), -32603],
  ['a request to the network that makes no sense', new NetworkError('invalid', 'why'), -32602],
  ['a request to the network that is not allowed', new NetworkError('refused', 'why'), -32600],
  ['a request to the network that failed', new NetworkError('failed', 'why'), -32603],
  ['a request to the network too many', new NetworkError('limit', 'why'), -32001],
])('%s', (_name, error, code) => {
  expect(domainErrorToRpc(error)).toMatchObject({ code, message: 'why' });
});

test('an error of the wire stays as it is', () => {
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
])('%s is a defect', (error) => {
  expect(domainErrorToRpc(error)).toBeNull();
});
