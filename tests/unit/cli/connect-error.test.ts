import { expect, test } from 'vitest';
import { connectError } from '../../../src/cli/environments/target.ts';
import { ClientError } from '../../../src/client/errors.ts';

const server = { address: 'ws://gpu.example:4000', hasToken: true };

test('a connection that times out names the server and the seconds, and no option of the library', () => {
  const error = new ClientError('connectTimeout', 'connecting took longer than 10000 ms', {
    hint: 'check the address and the network, or raise `connectTimeoutMs`',
  });
  expect(connectError(error, server)).toMatchObject({
    kind: 'connectTimeout',
    message:
      'connecting to ws://gpu.example:4000 took longer than 10 s; check the address, the network and the firewall',
  });
});
