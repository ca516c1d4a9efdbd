import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { discoverCapabilityRoots } from '../../../../src/files/capability-discovery/discover.ts';
import { Errno, systemError } from '../../../../src/files/errors.ts';
import type { FileSystem } from '../../../../src/files/file-system.ts';
import {
  DISCOVERY_ANSWER_BYTES,
  DISCOVERY_FILE_BYTES,
  DISCOVERY_ROOT_BYTES,
  DISCOVERY_ROOT_CONCURRENCY,
  DISCOVERY_WARNING_BYTES,
  MAX_DISCOVERY_ROOTS,
} from '../../../../src/files/limits.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { PathUriError } from '../../../../src/files/path-uri.ts';
import { waitFor } from '../../../support/wait-for.ts';

const NEVER = new AbortController().signal;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'capabilities-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

function uriOf(path: string): string {
  return pathToFileURL(join(folder, path)).href;
}

/** Discovers one root below the test directory. `changes` replaces operations of the file system. */
async function discover(path: string, changes: Partial<FileSystem> = {}) {
  const files = { ...LOCAL_FILE_SYSTEM, ...changes };
  const [found] = await discoverCapabilityRoots(files, [{ id: 'r', path: uriOf(path) }], NEVER);
  return found!;
}

describe('a capability root', () => {
  it('returns its manifest, configurations and skills', async () => {
    put('p/.codex-plugin/plugin.json', '{"mcpServers":"./mcp.json"}');
    put('p/mcp.json', 'mcp');
    put('p/.app.json', 'apps');
    put('p/s/SKILL.md', 'skill');
    put('p/s/agents/openai.yaml', 'meta');
    const manifest = { path: uriOf('p/.codex-plugin/plugin.json'), contents: '{"mcpServers":"./mcp.json"}' };
    expect(await discover('p')).toEqual({
      id: 'r',
      path: uriOf('p'),
      plugin: {
        manifest,
        mcpConfig: { path: uriOf('p/mcp.json'), contents: 'mcp' },
        appsConfig: { path: uriOf('p/.app.json'), contents: 'apps' },
      },
      skills: [
        {
          instructions: { path: uriOf('p/s/SKILL.md'), contents: 'skill' },
          metadata: { path: uriOf('p/s/agents/openai.yaml'), contents: 'meta' },
        },
      ],
      namespaceManifests: [manifest],
      warnings: [],
      error: null,
    });
  });

  it('reads no configuration file when the manifest declares the servers inline', async () => {
    put('p/.codex-plugin/plugin.json', '{"mcpServers":{}}');
    put('p/.mcp.json', 'not read');
    const opened: string[] = [];
    const found = await discover('p', {
      readFile: (path, options) => {
        opened.push(path);
        return LOCAL_FILE_SYSTEM.readFile(path, options);
      },
    });
    expect(found.plugin!.mcpConfig).toBeNull();
    expect(opened).toEqual([join(folder, 'p/.codex-plugin/plugin.json')]);
  });

  it('reports directories that could not be searched', async () => {
    put('p/s/SKILL.md', 'skill');
    const found = await discover('p', {
      walk: async (...args) => ({
        ...(await LOCAL_FILE_SYSTEM.walk(...args)),
        errors: [{ uri: 'file:///p/no', message: 'Permission denied (os error 13)' }],
        truncated: true,
      }),
    });
    expect(found.warnings).toEqual([
      'failed to scan capability path file:///p/no: Permission denied (os error 13)',
      `capability scan reached its traversal limit (root: ${uriOf('p')})`,
    ]);
    expect(found.skills).toHaveLength(1);
  });

  it('reports files that could not be read', async () => {
    put('p/.mcp.json', 'x');
    put('p/.codex-plugin/plugin.json', '{}');
    put('p/s/SKILL.md', 'skill');
    const found = await discover('p', {
      readFile: async (path, options) => {
        if (path.endsWith('.mcp.json') || path.endsWith('.md')) throw systemError(Errno.EACCES);
        return LOCAL_FILE_SYSTEM.readFile(path, options);
      },
    });
    expect(found).toMatchObject({ skills: [], plugin: { mcpConfig: null } });
    expect(found.warnings).toEqual([
      `failed to read capability file ${uriOf('p/.mcp.json')}: Permission denied (os error 13)`,
      `failed to read capability file ${uriOf('p/s/SKILL.md')}: Permission denied (os error 13)`,
    ]);
  });

  it('that disappears during the search reports an error', async () => {
    put('p/s/SKILL.md', 'skill');
    const found = await discover('p', {
      walk: (...args) => {
        rmSync(join(folder, 'p'), { recursive: true });
        return LOCAL_FILE_SYSTEM.walk(...args);
      },
    });
    expect(found.error).toBe(
      `failed to scan capability root ${uriOf('p')}: No such file or directory (os error 2)`,
    );
  });

  it('omits a file that disappears after its check, without a warning', async () => {
    put('p/s/SKILL.md', 'skill');
    const found = await discover('p', {
      readFile: (path, options) => {
        rmSync(path);
        return LOCAL_FILE_SYSTEM.readFile(path, options);
      },
    });
    expect(found).toMatchObject({ skills: [], warnings: [], error: null });
  });
});

describe('a file that grows after its size was checked', () => {
  /** Reports size 0 for every file until it is read. */
  const appearsEmpty: Partial<FileSystem> = {
    getMetadata: async (path, options) => ({
      ...(await LOCAL_FILE_SYSTEM.getMetadata(path, options)),
      size: 0,
    }),
    readFile: async (path, options) => {
      const content = await LOCAL_FILE_SYSTEM.readFile(path, options);
      return { size: 0, read: (buffer) => content.read(buffer), close: () => content.close() };
    },
  };

  it.each([0, 1, 2, 100_000, DISCOVERY_FILE_BYTES])('is read whole with %i bytes', async (size) => {
    put('p/SKILL.md', Buffer.alloc(size, 'x'));
    const found = await discover('p', appearsEmpty);
    expect(found.skills[0]!.instructions.contents).toHaveLength(size);
  });

  it('is skipped beyond the limit of a file', async () => {
    put('p/SKILL.md', Buffer.alloc(DISCOVERY_FILE_BYTES + 1, 'x'));
    expect(await discover('p', appearsEmpty)).toMatchObject({
      skills: [],
      warnings: [`capability file ${uriOf('p/SKILL.md')} exceeds the ${DISCOVERY_FILE_BYTES}-byte limit`],
    });
  });

  it('is skipped beyond the limit of its root', async () => {
    for (let index = 10; index <= 26; index++)
      put(`p/${index}/SKILL.md`, Buffer.alloc(DISCOVERY_FILE_BYTES, 'x'));
    const found = await discover('p', appearsEmpty);
    expect(found.skills).toHaveLength(16);
    expect(found.warnings).toEqual([`capability root bundle exceeds the ${DISCOVERY_ROOT_BYTES}-byte limit`]);
  });

  it('is always closed', async () => {
    put('p/a/SKILL.md', 'a');
    put('p/b/SKILL.md', Buffer.alloc(DISCOVERY_FILE_BYTES + 1, 'x'));
    let open = 0;
    await discover('p', {
      ...appearsEmpty,
      readFile: async (path, options) => {
        const content = await LOCAL_FILE_SYSTEM.readFile(path, options);
        open++;
        return {
          size: 0,
          read: (buffer) => content.read(buffer),
          close: async () => {
            await content.close();
            open--;
          },
        };
      },
    });
    expect(open).toBe(0);
  });
});

describe('several roots', () => {
  it('share a budget for the whole response', async () => {
    const perRoot = DISCOVERY_ROOT_BYTES / DISCOVERY_FILE_BYTES;
    for (let index = 10; index < 10 + perRoot; index++) {
      put(`p/${index}/SKILL.md`, Buffer.alloc(DISCOVERY_FILE_BYTES, 'x'));
    }
    const full = DISCOVERY_ANSWER_BYTES / DISCOVERY_ROOT_BYTES;
    const roots = Array.from({ length: full + 1 }, (_, index) => ({ id: `${index}`, path: uriOf('p') }));
    const found = await discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, NEVER);
    const warnings = found.flatMap((root) => root.warnings);
    // The paths leave no space for the last file.
    expect(found.flatMap(({ skills }) => skills)).toHaveLength(full * perRoot - 1);
    expect(warnings).toHaveLength(perRoot + 1);
    expect(JSON.stringify(found.map(({ skills }) => skills)).length).toBeLessThan(DISCOVERY_ANSWER_BYTES);
    expect(new Set(warnings)).toEqual(
      new Set([`capability discovery answer exceeds the ${DISCOVERY_ANSWER_BYTES}-byte limit`]),
    );
  });

  it('count a manifest twice, because the response contains it twice', async () => {
    put('p/.codex-plugin/plugin.json', Buffer.alloc(DISCOVERY_FILE_BYTES, 'x'));
    const fits = DISCOVERY_ANSWER_BYTES / DISCOVERY_FILE_BYTES / 2 - 1;
    const roots = Array.from({ length: fits + 3 }, (_, index) => ({ id: `${index}`, path: uriOf('p') }));
    const found = await discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, NEVER);
    expect(found.filter(({ plugin }) => plugin !== null)).toHaveLength(fits);
    expect(JSON.stringify(found).length).toBeLessThan(DISCOVERY_ANSWER_BYTES);
  });

  it('have a limited number of warnings each', async () => {
    put('p/s/SKILL.md', 'skill');
    const error = { uri: `file:///${'x'.repeat(1_000)}`, message: 'no' };
    const found = await discover('p', {
      walk: async (...args) => ({
        ...(await LOCAL_FILE_SYSTEM.walk(...args)),
        errors: Array.from({ length: 1_000 }, () => error),
      }),
    });
    expect(found.skills).toHaveLength(1);
    const { length } = found.warnings;
    expect(found.warnings.at(-1)).toBe(`${1_000 - length + 1} more warnings`);
    expect(found.warnings.join('').length).toBeLessThan(DISCOVERY_WARNING_BYTES + 100);
    expect(length).toBeGreaterThan(200);
  });

  it('are searched concurrently, up to a limit', async () => {
    put('p/SKILL.md', 'x');
    let running = 0;
    let most = 0;
    const files: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      walk: async (...args) => {
        most = Math.max(most, ++running);
        // No walk ends before as many run as may.
        await waitFor('the other walks', () => most >= DISCOVERY_ROOT_CONCURRENCY);
        const result = await LOCAL_FILE_SYSTEM.walk(...args);
        running--;
        return result;
      },
    };
    const roots = Array.from({ length: MAX_DISCOVERY_ROOTS }, (_, index) => ({
      id: `${index}`,
      path: uriOf('p'),
    }));
    const found = await discoverCapabilityRoots(files, roots, NEVER);
    expect(found.map(({ id }) => id)).toEqual(roots.map(({ id }) => id));
    expect(most).toBe(DISCOVERY_ROOT_CONCURRENCY);
  });

  it('are rejected when there are too many', async () => {
    const roots = Array.from({ length: MAX_DISCOVERY_ROOTS + 1 }, () => ({ id: '', path: uriOf('') }));
    await expect(discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, NEVER)).rejects.toMatchObject({
      kind: 'refused',
      message: 'capability root discovery accepts at most 128 roots',
    });
  });

  it('are all rejected when one path is not a URI', async () => {
    const roots = [{ id: 'x', path: '/native' }];
    await expect(discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, NEVER)).rejects.toThrow(PathUriError);
  });

  it('are abandoned when the signal aborts', async () => {
    put('p/SKILL.md', 'x');
    const abort = new AbortController();
    const files: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      canonicalize: (path) => {
        if (path.endsWith('plugin.json')) abort.abort(new Error('unwanted'));
        return LOCAL_FILE_SYSTEM.canonicalize(path);
      },
    };
    const roots = [{ id: 'r', path: uriOf('p') }];
    await expect(discoverCapabilityRoots(files, roots, abort.signal)).rejects.toThrow('unwanted');
  });
});
