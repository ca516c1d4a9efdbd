import { expect, test } from 'vitest';
import * as relay from '../../../src/relay/index.ts';
import { DEFAULT_CONFIG } from '../../../src/server/config/config.ts';

test('the package exports these names', () => {
  expect(Object.keys(relay).sort()).toEqual([
    'CredentialError',
    'CredentialFrames',
    'RegistryError',
    'RelaySource',
    'RunningExecutor',
    'bearerAuth',
    'connectRemote',
    'forwardStream',
    'runRemoteEnvironment',
    'signIn',
    'startRelay',
  ]);
});

test('a provider of credentials needs only headers', async () => {
  const simple: relay.RegistryAuth = { headers: () => ({ authorization: 'Bearer t' }) };
  const whole: relay.RegistryAuth = {
    headers: async () => ({ authorization: 'Bearer t' }),
    refreshAfterUnauthorized: async (refused) => refused.authorization === 'Bearer t',
    settled: async () => {},
    revealedIn: (text) => text.includes('t'),
  };
  // @ts-expect-error: `headers` is required.
  const none: relay.RegistryAuth = {};
  expect([await simple.headers(), await whole.headers(), none]).toEqual([
    { authorization: 'Bearer t' },
    { authorization: 'Bearer t' },
    {},
  ]);
});

test('the configuration of a remote environment requires these members', () => {
  const place = { registryUrl: 'https://h', environmentId: 'e' };
  const auth = relay.bearerAuth('t');
  const whole: relay.RemoteEnvironmentConfig = { ...place, auth, server: DEFAULT_CONFIG };
  // @ts-expect-error: `auth` is required.
  const anonymous: relay.RemoteEnvironmentConfig = { ...place, server: DEFAULT_CONFIG };
  // @ts-expect-error: `server` is required.
  const empty: relay.RemoteEnvironmentConfig = { ...place, auth };
  expect([whole, anonymous, empty].map((config) => Object.keys(config).length)).toEqual([4, 3, 3]);
});
