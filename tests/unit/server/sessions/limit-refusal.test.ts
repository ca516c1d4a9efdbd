import { expect, test } from 'vitest';
import { StartError } from '../../../../src/listener/start-error.ts';
import { CONFIG_OPTIONS, DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { refuseUnenforceableLimits } from '../../../../src/server/sessions/limit-refusal.ts';

const nowhere = () => ({ obstacle: 'no groups here' });
const everywhere = () => ({});

const NEED_GROUPS = CONFIG_OPTIONS.filter(({ description }) => description.includes('Needs control groups'));

test('the options that need control groups say so', () => {
  expect(NEED_GROUPS).toHaveLength(5);
});

test.each(NEED_GROUPS)('$flag stops a server that cannot keep it', async ({ key, flag }) => {
  const config = { ...DEFAULT_CONFIG, [key]: 1 };
  const refusal = refuseUnenforceableLimits(config, nowhere);
  await expect(refusal).rejects.toThrow(StartError);
  await expect(refusal).rejects.toThrow(new RegExp(`^${flag} .*no groups here.*Delegate=yes`));
  await expect(refuseUnenforceableLimits(config, everywhere)).resolves.toBeUndefined();
  const notNative = refuseUnenforceableLimits({ ...config, nativeSpawn: false }, everywhere);
  await expect(notNative).rejects.toThrow(/nativeSpawn/);
});

test('what can be kept without groups stops nobody', async () => {
  const config = { ...DEFAULT_CONFIG, maxProcessMemoryBytes: 1, maxProcessWallMs: 1 };
  await expect(refuseUnenforceableLimits(config, nowhere)).resolves.toBeUndefined();
});

test('memory cannot be limited without native starts', async () => {
  const config = { ...DEFAULT_CONFIG, maxProcessMemoryBytes: 1, nativeSpawn: false };
  const refusal = refuseUnenforceableLimits(config, everywhere);
  await expect(refusal).rejects.toThrow(StartError);
  await expect(refusal).rejects.toThrow(/^--max-process-memory-bytes .*nativeSpawn/);
});
