import { expect, test } from 'vitest';
import { unansweredError } from '../../../../src/client/connection/socket-errors.ts';

test.each([
  [false, 'if the server uses TLS, write wss://; otherwise try again later'],
  [true, 'try again later'],
])('a plain address that hangs up and has worked before (%s) gets the hint: %s', (hasWorked, hint) => {
  const error = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
  const explained = unansweredError('ws://127.0.0.1:1', error, { hasCertificate: false, hasWorked });
  expect(explained).toMatchObject({ kind: 'connectFailed', retryable: true, hint });
});
