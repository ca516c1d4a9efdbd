import { expect, test } from 'vitest';
import { listenError, StartError } from '../../../src/listener/start-error.ts';

const systemError = (code: string) => Object.assign(new Error('the system says so'), { code });

test.each([
  ['EADDRINUSE', 'ws://127.0.0.1:80', 'the port is in use (choose another, or 0 for a free one)'],
  ['EACCES', 'ws://127.0.0.1:80', 'the port needs privileges (choose one above 1023, or 0 for a free one)'],
  [
    'EADDRNOTAVAIL',
    'ws://192.0.2.1:0',
    'this machine has no such address (use 127.0.0.1, or 0.0.0.0 for every interface)',
  ],
  ['EAFNOSUPPORT', 'ws://[::1]:0', 'this machine does not support that address family (use 127.0.0.1)'],
  ['EMFILE', 'ws://127.0.0.1:80', 'the system says so'],
  [
    'EACCES',
    'unix:///nowhere/s',
    'its directory does not exist or is not writable (create it, or choose another path)',
  ],
  ['ENOTDIR', 'unix:///etc/passwd/s', 'part of the path is not a directory (choose another path)'],
])('explains %s of %s', (code, url, reason) => {
  const cause = systemError(code);
  const error = listenError(cause, url);
  expect(error).toBeInstanceOf(StartError);
  expect(error).toMatchObject({ message: `cannot listen on ${url}: ${reason}`, cause });
});

test.each([new StartError('no'), new TypeError('a defect')])('does not change %s', (error) => {
  expect(listenError(error, 'ws://127.0.0.1:80')).toBe(error);
});
