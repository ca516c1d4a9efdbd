import { expect, test } from 'vitest';
import { StartError } from '../../../../src/listener/start-error.ts';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { serve } from '../../../../src/server/serve.ts';
import { hostPolicyOf } from '../../../../src/server/sessions/http-hosts.ts';

test.each([
  ['httpAllowedHosts', '--http-allowed-hosts'],
  ['httpDeniedHosts', '--http-denied-hosts'],
] as const)('%s that cannot be read stops the server, and the option is named', async (key, option) => {
  const start = serve({ ...DEFAULT_CONFIG, [key]: 'a.example, a b' });
  await expect(start).rejects.toThrow(StartError);
  await expect(start).rejects.toThrow(new RegExp(`^${option}: .*a b`));
});

test.each([',', ' ', ' , '])('%j is no list: nothing would be kept out', async (list) => {
  for (const key of ['httpAllowedHosts', 'httpDeniedHosts'] as const) {
    await expect(serve({ ...DEFAULT_CONFIG, [key]: list })).rejects.toThrow(/no host in the list/);
  }
});

test('without lists every host may be reached', async () => {
  expect(await hostPolicyOf(DEFAULT_CONFIG)).toEqual({ allowed: null, denied: null, privateAddresses: true });
});
