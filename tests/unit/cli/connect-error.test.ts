import { expect, test } from 'vitest';
import { connectError } from '../../../src/cli/environments/connect-error.ts';
import { unansweredError } from '../../../src/client/connection/socket-errors.ts';
import { ClientError } from '../../../src/client/errors.ts';

const server = { address: 'ws://gpu.example:4000', tokenFrom: null, tokenAdvice: 'use --token-file' };

test.each([
  [false, 'check the address, the network and the firewall'],
  [true, 'check that its executor runs and is connected to the relay'],
])(
  'a connection that times out names the server, the seconds and what to check (relay: %s)',
  (isRelay, advice) => {
    const error = new ClientError('connectTimeout', 'connecting took longer than 10000 ms', {
      hint: 'check the address and the network, or raise `connectTimeoutMs`',
    });
    expect(connectError(error, { ...server, isRelay })).toMatchObject({
      kind: 'connectTimeout',
      message: `connecting to ws://gpu.example:4000 took longer than 10 s; ${advice}`,
    });
  },
);

test.each(["exec-server: unknown command 'proxy'", "Try 'exec-server --help'"])(
  'reports an exec-server behind ssh that is too old, by the last line of its output: %s',
  (line) => {
    const error = new ClientError('connectFailed', `closed: ssh has ended (exit code 2): ${line}`);
    expect(connectError(error, { ...server, address: 'ssh://build' }).message).toBe(
      'ssh has connected, but the exec-server there is too old: it has no command proxy; update it there',
    );
  },
);

test('a server that does not answer the handshake is named, without options of the client library', () => {
  const error = new ClientError('initializeTimeout', 'the handshake took longer than 10000 ms', {
    hint: 'check that the address is an exec-server, or raise `initializeTimeoutMs`',
  });
  expect(connectError(error, server)).toMatchObject({
    kind: 'initializeTimeout',
    message:
      'the answer of ws://gpu.example:4000 took longer than 10 s; check that an exec-server listens there, and try again',
  });
  expect(connectError(error, { ...server, silentAdvice: 'end it' }).message).toMatch(/ 10 s; end it$/);
});

test.each([
  ['/home/me/token', 'the token in /home/me/token is wrong, expired or revoked; put a new one there'],
  ['EXEC_SERVER_TOKEN', 'the token in EXEC_SERVER_TOKEN is wrong, expired or revoked; put a new one there'],
  [null, 'it needs a token: use --token-file'],
])('a refused token is named by its source: %s', (tokenFrom, advice) => {
  const error = new ClientError('connectFailed', 'refused the connection with HTTP 401', {
    data: { status: 401 },
  });
  expect(connectError(error, { ...server, tokenFrom }).message).toBe(
    `refused the connection with HTTP 401; ${advice}`,
  );
});

test('a server that cuts a connection with TLS may need a certificate, which a flag of env add gives it', () => {
  const address = 'wss://gpu.example';
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  const error = unansweredError(address, reset, { hasCertificate: false, hasWorked: false });
  expect(connectError(error!, { ...server, address }).message).toBe(
    "wss://gpu.example closed the connection before it answered; if the server requires a client certificate, name the server with 'exec-server env add NAME URL --tls-cert FILE --tls-key FILE'; otherwise try again later",
  );
});

test.each([
  ['ssh://me@build.example', 'ssh me@build.example exec-server version'],
  ['ssh://build:2222', 'ssh -p 2222 build exec-server version'],
  ['ssh://me@[::1]:2222/', 'ssh -p 2222 me@::1 exec-server version'],
])('a failure of ssh suggests a command that shows it: %s', (address, command) => {
  const error = new ClientError('connectFailed', 'closed: ssh has ended (exit code 255): Permission denied.');
  expect(connectError(error, { ...server, address }).message).toBe(
    `ssh has failed (exit code 255): Permission denied; try '${command}'`,
  );
});
