import { expect, onTestFinished, test } from 'vitest';
import { run } from '../../src/client/helpers.ts';
import { overRelay } from '../support/relay.ts';

test('a program runs on an executor behind a relay', async () => {
  const { client, close } = await overRelay();
  onTestFinished(close);
  const { stdout, exitCode } = await run(client.backend, ['/bin/echo', 'hello']);
  expect([stdout, exitCode]).toEqual(['hello\n', 0]);
});
