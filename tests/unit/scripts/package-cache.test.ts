import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ensurePackage } from '../../../scripts/package-cache.mjs';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'package-cache-'));
  vi.stubEnv('XDG_CACHE_HOME', folder);
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const find = (place: string) => (existsSync(join(place, 'tool')) ? join(place, 'tool') : undefined);

test('returns a program that is in the cache', async () => {
  const place = join(folder, 'exec-server', 'a-tool-1.2.3');
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'tool'), '');
  expect(await ensurePackage('@scope/a-tool', '1.2.3', find)).toBe(join(place, 'tool'));
});

test('reports a package that cannot be installed, and leaves nothing', async () => {
  const registry = createServer((_, response) => response.writeHead(404).end()).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  vi.stubEnv('npm_config_registry', `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`);
  await expect(ensurePackage('a-tool', '1.2.3', find)).rejects.toThrow(
    'cannot install a-tool@1.2.3: npm error code E404',
  );
  registry.close();
  expect(readdirSync(join(folder, 'exec-server'))).toEqual([]);
});
