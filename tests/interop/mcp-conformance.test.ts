import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureNode } from '../../scripts/nodes.mjs';
import { ensurePackage } from '../../scripts/package-cache.mjs';
import { GENERATIONS } from '../support/mcp-client.ts';
import { McpFixture } from '../support/mcp-server.ts';

const SUITE = '@modelcontextprotocol/conformance';
const SUITE_VERSION = '0.2.0-alpha.12';
/** The suite needs Node 22 or later. */
const NODE_VERSION = '24.21.0';

async function findSuite(): Promise<readonly [node: string, suite: string]> {
  const suite = await ensurePackage(SUITE, SUITE_VERSION, (folder) => {
    const main = join(folder, 'node_modules', SUITE, 'dist/index.js');
    return existsSync(main) ? main : undefined;
  });
  const isRecent = Number(process.versions.node.split('.')[0]) >= 22;
  return [isRecent ? process.execPath : await ensureNode(NODE_VERSION), suite];
}

const found = await findSuite().catch((error: Error) => error);
const why = found instanceof Error ? ` (skipped: ${found.message})` : '';

describe.skipIf(found instanceof Error)(`the MCP conformance suite${why}`, () => {
  let fixture: McpFixture;
  let url: string;
  const folder = mkdtempSync(join(tmpdir(), 'mcp-conformance-'));

  beforeAll(async () => {
    fixture = await McpFixture.open();
    url = await fixture.listen();
  });
  afterAll(async () => {
    await fixture?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test.each(GENERATIONS)('passes for %s, but for what does not apply', async (generation) => {
    const [node, suite] = found as readonly [string, string];
    const baseline = fileURLToPath(new URL(`mcp-conformance/${generation}.yml`, import.meta.url));
    const args = [suite, 'server', '--url', url, '--requirements', generation];
    const options = { cwd: folder, env: { PATH: process.env.PATH, HOME: folder } };
    const run = promisify(execFile)(node, [...args, '--expected-failures', baseline], options);
    const { stdout, stderr, code } = await run.then(
      (output) => ({ ...output, code: 0 }),
      (error: { stdout: string; stderr: string; code: number }) => error,
    );
    const summary = stdout.slice(stdout.indexOf('=== SUMMARY ==='));
    expect(code, `${summary}\n${stderr.slice(-2000)}`).toBe(0);
    expect(summary).toMatch(/✓ tools-list: [1-9]/);
  });
});
