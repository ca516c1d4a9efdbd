import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as entry from '../../../../src/agent/toolset/index.ts';
import * as limits from '../../../../src/agent/toolset/limits.ts';

const PAGE = readFileSync(new URL('../../../../docs/guides/tools-for-models.md', import.meta.url), 'utf8');

test('the page mentions every export and every tool', () => {
  const environments = [{ name: 'box', environment: {} as entry.ToolEnvironment }];
  const { tools } = entry.createAgentTools({ environments });
  for (const name of [...Object.keys(entry), ...tools.map((tool) => tool.name)]) {
    expect(PAGE).toMatch(new RegExp(`\\b${name}\\b`));
  }
});

test('the page states the limits as they are', () => {
  const text = (value: number) => value.toLocaleString('en');
  expect(PAGE).toContain(
    `${limits.MAX_CONCURRENT_CALLS} at a time, ${limits.MAX_WAITING_CALLS} wait; a call ends after ${limits.CALL_LIMIT_MS / 1000} s`,
  );
  expect(PAGE).toContain(
    `lines of ${text(limits.MAX_LINE_CHARACTERS)} characters, the first ${limits.MAX_SCANNED_BYTES / 2 ** 20} MiB; ${limits.MAX_EDITED_BYTES / 2 ** 20} MiB; ${limits.MAX_WRITTEN_BYTES / 2 ** 20} MiB`,
  );
  expect(PAGE).toContain(
    `${text(limits.MAX_LISTED_ENTRIES)} of the first ${text(limits.MAX_EXAMINED_ENTRIES)} entries; ${text(limits.MAX_SEARCH_RESULTS)} results in ${limits.SEARCH_TIMEOUT_MS / 1000} s, names among ${text(limits.MAX_SEARCHED_ENTRIES)} entries`,
  );
  expect(PAGE).toContain(`| resources | ${limits.MAX_RESOURCE_BYTES / 2 ** 20} MiB |`);
  expect(PAGE).toContain(`at most ${limits.MAX_WAIT_MS / 1000} s |`);
});

test.each([
  [{ environments: [] }, 'at least one'],
  [{ environments: [{ name: 'a' }, { name: 'a' }] }, 'names must differ'],
  [{ environments: [{ name: 'a' }], roots: ['relative'] }, 'relative'],
])('options that cannot work are refused: %j', (options, reason) => {
  expect(() => entry.createAgentTools(options as never)).toThrow(reason);
});
