import { readFileSync } from 'node:fs';
import { parse } from 'smol-toml';
import { expect, it } from 'vitest';
import { parseEnvironments } from '../../../src/environment/config/environments-toml.ts';
import { TomlTable } from '../../../src/environment/config/toml-table.ts';
import * as entry from '../../../src/environment/index.ts';

const PAGE = readFileSync(new URL('../../../docs/guides/environments.md', import.meta.url), 'utf8');

function blocks(language: string): string[] {
  const pattern = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g');
  return [...PAGE.matchAll(pattern)].map((match) => match[1]!);
}

it('the environments.toml of the page is valid', () => {
  const table = new TomlTable('environments.toml', '', parse(blocks('toml')[0]!));
  const provided = parseEnvironments(table, '/home');
  expect(provided.default).toBe('gpu');
  expect(provided.environments.map(({ id }) => id)).toEqual(['gpu', 'box', 'build']);
});

it('the page mentions every export', () => {
  const names = [
    'ClientError',
    'ConfigError',
    'DiscoveryCache',
    'EnvironmentManager',
    'LOCAL_ENVIRONMENT_ID',
    'LocalEnvironment',
    'McpRuntime',
    'RemoteEnvironment',
    'ThreadEnvironments',
    'ThreadStore',
    'TransferError',
    'attachmentRoots',
    'configuredEnvironments',
    'discoverEnvironments',
    'fetchOver',
    'forkThread',
    'inspectRoots',
    'openMcpTransport',
    'projectSkills',
    'resolveStepRoots',
    'restoreSelection',
    'selectRoot',
    'selectionMetadata',
    'webSocketTransport',
  ];
  expect(Object.keys(entry).sort()).toEqual(names);
  for (const name of names) expect(PAGE).toMatch(new RegExp(`\\b${name}\\b`));
});
