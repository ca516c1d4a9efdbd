import { expect, test } from 'vitest';
import { candidatesFor } from '../../../src/cli/completion.ts';

async function complete(...words: string[]) {
  const names = async (kind: string) => [{ word: `some-${kind}`, description: '' }];
  const { words: found, paths } = await candidatesFor(words, names);
  return { words: found.map(({ word }) => word), paths };
}

test.each<[string[], string[]]>([
  [['tok'], ['token']],
  [['con'], ['console', 'config', 'connect']],
  [['nothing', ''], []],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
  [['completion', 'z'], ['zsh']],
  [['completion', 'bash', ''], []],
  [
    ['help', 'ser'],
    ['serve', 'service'],
  ],
  [
    ['serve', '--tls-c'],
    ['--tls-cert', '--tls-client-ca'],
  ],
  [['--tls-c'], ['--tls-cert', '--tls-client-ca']],
  [['--tls-cert', 'x', '--transport', 's'], ['stdio']],
  [['serve', '--no-native'], ['--no-native-spawn']],
  [
    ['serve', '--ws-auth', ''],
    ['none', 'capability-token', 'signed-bearer-token'],
  ],
  [['serve', '--ws-auth=c'], ['--ws-auth=capability-token']],
  [['serve', '-p', ''], ['some-PORT']],
  [['relay', 'token', '--role', 'h'], ['harness']],
  [['relay', '--listen', 'token', 't'], ['token']],
  [['kill', '-s', 'HU'], ['HUP']],
  [['kill', '--signal=TER'], ['--signal=TERM']],
  [['env', 'l'], ['ls']],
  [['env', 'rm', ''], ['some-ENV']],
  [['cp', 'some-ENV:/et'], []],
])('%j completes to %j', async (words, expected) => {
  expect(await complete(...words)).toEqual({ words: expected, paths: 'none' });
});

test.each<[string[], string]>([
  [['serve', '--tls-cert', ''], 'files'],
  [['serve', '--tls-cert=x'], 'files'],
  [['run', '--sandbox', './'], 'files'],
  [['serve', '-c', ''], 'files'],
  [['token', 'signed', '--path', ''], 'directories'],
  [['audit', 'verify', ''], 'files'],
])('%j completes to %s', async (words, paths) => {
  expect(await complete(...words)).toEqual({ words: [], paths });
});

test.each(['play', 'export'])('%s completes recordings and files', async (command) => {
  expect(await complete(command, '')).toEqual({ words: ['some-RECORDING'], paths: 'files' });
});

test('the first word completes to every command', async () => {
  const { words } = await complete('');
  expect(words).toContain('serve');
  expect(words).not.toContain('__complete');
});

test('the modes of a sandbox complete beside files', async () => {
  expect(await complete('run', '--sandbox', '')).toEqual({
    words: ['read-only', 'workspace-write'],
    paths: 'files',
  });
});
