import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureMcpConformance } from '../../scripts/mcp-conformance.mjs';
import { GENERATIONS } from '../support/mcp-client.ts';
import { McpFixture } from '../support/mcp-server.ts';

const found = await ensureMcpConformance().catch((error: Error) => error);
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
