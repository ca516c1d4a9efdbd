import { expect, test } from 'vitest';
import { MAX_LISTED_RESOURCES } from '../../../src/mcp/limits.ts';
import { RecentResources } from '../../../src/mcp/recent-resources.ts';

const resource = (index: number) => ({
  uri: `exec-server://local/processes/${index}/output`,
  name: `output of ${index}`,
  mimeType: 'text/plain',
  size: null,
});

test('lists the latest resources once, the latest first, and forgets the oldest', () => {
  const recent = new RecentResources();
  for (let index = 0; index <= MAX_LISTED_RESOURCES; index++) recent.add([resource(index)]);
  recent.add([resource(1)]);
  const listed = recent.list();
  expect(listed).toHaveLength(MAX_LISTED_RESOURCES);
  expect(listed[0]).toEqual(resource(1));
  expect(listed.at(-1)).toEqual(resource(2));
});
