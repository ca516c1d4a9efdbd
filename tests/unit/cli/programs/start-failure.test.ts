import { expect, test } from 'vitest';
import { startFailure } from '../../../../src/cli/programs/start-failure.ts';
import { ClientError } from '../../../../src/client/errors.ts';

const place = { target: { name: 'box', address: 'ws://box:1' }, tokenFile: null };

test.each([
  ['detached', 'the server cannot start programs with -d; update it, or leave -d out'],
  ['name', 'the server cannot start programs with --name; update it, or leave --name out'],
  ['record', 'the server cannot start programs with --record; update it, or leave --record out'],
  ['limits', 'the server cannot start programs with --timeout; update it, or leave --timeout out'],
])('a server that does not have the option %s: the flag is named', (option, message) => {
  const error = new ClientError('unsupported', `the server cannot start programs with \`${option}\``, {
    hint: `use a server that announces the capability processSharing, or leave \`${option}\` out`,
  });
  expect(startFailure(error, ['true'], place, false)).toMatchObject({ message, kind: 'unsupported' });
});

test('a start that the server has cancelled is described without the id of the process', () => {
  const error = new ClientError('conflict', 'process run-48ef start was cancelled');
  expect(startFailure(error, ['true'], place, false)).toMatchObject({
    message:
      'the program was not started: the server is ending, or another client has ended the program meanwhile; try again',
    kind: 'conflict',
  });
});
