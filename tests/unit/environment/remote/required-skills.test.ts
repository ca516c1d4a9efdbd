import { expect, it } from 'vitest';
import { ClientError } from '../../../../src/client/errors.ts';
import type { ClientLike } from '../../../../src/environment/remote/connection.ts';
import { RemoteEnvironment } from '../../../../src/environment/remote/remote-environment.ts';
import { FakeConnector } from '../fake-connector.ts';

/** An environment whose executor answers with these values by method; errors are thrown. */
function environmentWith(answers: Record<string, unknown>, required = ['cuda']) {
  const connector = new FakeConnector();
  const calls: string[] = [];
  connector.respond = (attempt) => {
    const call = async (method: string) => {
      calls.push(method);
      const answer = answers[method] ?? new ClientError('unsupported', `unknown method: ${method}`);
      if (answer instanceof Error) throw answer;
      return answer;
    };
    Object.assign(attempt.client, { call: call as ClientLike['call'] });
    attempt.succeed();
  };
  return {
    environment: new RemoteEnvironment('gpu', connector, { requiredSkills: required }),
    connector,
    calls,
  };
}

const NOTHING = { plugins: [], skills: [], warnings: [] };

it('an environment without requirements is not asked for its skills', async () => {
  const { environment, calls } = environmentWith({}, []);
  await environment.waitUntilReady();
  expect(calls).toEqual([]);
});

it('an executor that cannot list skills is not ready, and stays so', async () => {
  const { environment, connector } = environmentWith({});
  const unsupported = {
    kind: 'unsupported',
    message:
      "environment 'gpu' requires skills, but its server cannot list them; update the server, or remove 'skills'",
  };
  await expect(environment.waitUntilReady()).rejects.toMatchObject(unsupported);
  await expect(environment.waitUntilReady()).rejects.toMatchObject(unsupported);
  expect(connector.attempts).toHaveLength(1);
  expect(connector.last.client.closed).toBe(true);
});

it('names the usual directories when the executor does not report its own', async () => {
  const { environment, connector } = environmentWith({ 'capabilities/discoverV2': NOTHING });
  await expect(environment.waitUntilReady()).rejects.toThrow(
    "environment 'gpu' lacks the required skill 'cuda', which its executor looks for in " +
      '$CODEX_HOME/skills, ~/.agents/skills and the plugins in $CODEX_HOME/plugins/cache; install',
  );
  expect(connector.last.client.closed).toBe(true);
});

it('quotes a limited number of warnings', async () => {
  const warnings = Array.from({ length: 9 }, (_, number) => `warning ${number}`);
  const { environment } = environmentWith({ 'capabilities/discoverV2': { ...NOTHING, warnings } });
  await expect(environment.waitUntilReady()).rejects.toThrow(
    /cache; warning 0; warning 1; warning 2; install/,
  );
});

it('a failed request is reported as it is', async () => {
  const { environment, connector } = environmentWith({
    'capabilities/discoverV2': new ClientError('disconnected', 'connection lost'),
  });
  await expect(environment.waitUntilReady()).rejects.toMatchObject({
    kind: 'disconnected',
    message: 'connection lost',
  });
  expect(connector.last.client.closed).toBe(true);
});
