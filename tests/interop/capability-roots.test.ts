import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ensureReference, startReference } from '../../scripts/reference.mjs';
import {
  DiscoveryCache,
  EnvironmentManager,
  resolveStepRoots,
  selectRoot,
} from '../../src/environment/index.ts';

const skipped = await ensureReference().then(
  () => null,
  (error: Error) => error.message,
);

test.skipIf(skipped !== null)('the reference server discovers the same capabilities', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'capability-roots-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const path of ['.claude-plugin', 'skills/é', 'skills/b'])
    mkdirSync(join(folder, path), { recursive: true });
  writeFileSync(join(folder, '.claude-plugin/plugin.json'), '{"mcpServers":"../no"}');
  writeFileSync(join(folder, 'skills/é/SKILL.md'), 'é');
  writeFileSync(join(folder, 'skills/b/SKILL.md'), Buffer.from([0xff]));

  const server = await startReference();
  onTestFinished(() => server.stop());
  const manager = new EnvironmentManager({ environments: [], default: null, includeLocal: true });
  onTestFinished(() => manager.dispose());
  await manager.add('reference', { type: 'websocket', url: server.url! }).waitUntilReady();

  const threadRoots = ['local', 'reference'].flatMap((environmentId) => [
    selectRoot({ id: `plugin in ${environmentId}`, environmentId, path: folder }),
    selectRoot({ id: `nothing in ${environmentId}`, environmentId, path: join(folder, 'no') }),
  ]);
  const roots = await resolveStepRoots({ threadRoots, captured: new Map(), registry: manager });
  const found = await new DiscoveryCache().discover(roots);
  const [here, , there, nothingThere] = found.map(({ discovered }) => discovered!);
  expect(found.map(({ discovered }) => discovered!.id)).toEqual(threadRoots.map(({ id }) => id));
  expect(here!.skills).toHaveLength(1);
  expect(here!.warnings).toHaveLength(2);
  expect(there).toEqual({ ...here, id: there!.id });
  expect(nothingThere!.error).toContain('No such file or directory');
});
