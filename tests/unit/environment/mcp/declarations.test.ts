import { describe, expect, it } from 'vitest';
import type { DiscoveredRoot } from '../../../../src/client/backend.ts';
import { declaredServers } from '../../../../src/environment/mcp/declarations.ts';

const ROOT = 'file:///plugins/my%20tools';

/** A plugin whose manifest or file declares servers. */
function plugin({ manifest = '{}', config = null as string | null }): DiscoveredRoot {
  return {
    id: 'tools@1',
    path: ROOT,
    plugin: {
      manifest: { path: `${ROOT}/.codex-plugin/plugin.json`, contents: manifest },
      mcpConfig: config === null ? null : { path: `${ROOT}/.mcp.json`, contents: config },
      appsConfig: null,
    },
    skills: [],
    namespaceManifests: [],
    warnings: [],
    error: null,
  };
}

/** The parsed declaration of one server. */
function declared(server: unknown, environmentId = 'worker') {
  return declaredServers(plugin({ config: JSON.stringify({ s: server }) }), environmentId);
}

describe('the servers of a plugin', () => {
  const program = { command: 'node', args: ['server.mjs'] };
  const parsed = { environmentId: 'worker', ...program, cwd: ROOT };

  it.each([
    ['a file with mcpServers', { config: JSON.stringify({ mcpServers: { s: program } }) }],
    ['a file without', { config: JSON.stringify({ s: program }) }],
    ['the manifest', { manifest: JSON.stringify({ mcpServers: { s: program } }) }],
    ['a file beside an invalid manifest', { manifest: '{', config: JSON.stringify({ s: program }) }],
  ])('come from %s', (_, files) => {
    expect(declaredServers(plugin(files), 'worker')).toEqual({
      servers: [{ name: 's', server: parsed }],
      warnings: [],
    });
  });

  it('are none without a plugin or a declaration', () => {
    expect(declaredServers({ ...plugin({}), plugin: null }, 'worker').servers).toEqual([]);
    expect(declaredServers(plugin({}), 'worker')).toEqual({ servers: [], warnings: [] });
  });

  it('are parsed once', () => {
    const root = plugin({ config: '{}' });
    expect(declaredServers(root, 'worker')).toBe(declaredServers(root, 'worker'));
  });

  it.each(['[]', 'null', '{"s":', ''])('are skipped when the file is %j', (config) => {
    expect(declaredServers(plugin({ config }), 'worker')).toEqual({
      servers: [],
      warnings: [`the MCP servers of plugin 'tools@1' are skipped: ${ROOT}/.mcp.json is not a JSON object`],
    });
  });

  it('do not affect each other', () => {
    const config = JSON.stringify({ bad: 7, off: { ...program, enabled: false }, good: program });
    const { servers, warnings } = declaredServers(plugin({ config }), 'worker');
    expect(servers).toEqual([{ name: 'good', server: parsed }]);
    expect(warnings).toEqual(["MCP server 'bad' of plugin 'tools@1' is skipped: it is not an object"]);
  });
});

describe('a declared program', () => {
  it.each([
    [undefined, ROOT],
    [null, ROOT],
    ['.', ROOT],
    ['./a b/é', `${ROOT}/a%20b/%C3%A9`],
    ['sub//dir/', `${ROOT}/sub/dir`],
    ['/opt/x', 'file:///opt/x'],
    ['file:///opt/y', 'file:///opt/y'],
    ['C:\\x', 'file:///C:/x'],
  ])('with the directory %j runs in %s', (cwd, expected) => {
    expect(declared({ command: 'x', cwd }).servers[0]!.server).toMatchObject({ cwd: expected });
  });

  it('has variables of its own and of the executor', () => {
    const { servers } = declared({
      command: 'x',
      env: { A: '1' },
      env_vars: ['TOKEN', { name: 'KEY' }, { name: 'ID', source: 'remote' }],
    });
    expect(servers[0]!.server).toMatchObject({ env: { A: '1' }, envVars: ['TOKEN', 'KEY', 'ID'] });
    const local = declared({ command: 'x', env_vars: [{ name: 'ID', source: 'local' }] }, 'local');
    expect(local.servers[0]!.server).toMatchObject({ envVars: ['ID'] });
  });
});

describe('a declared server over HTTP', () => {
  it('has headers', () => {
    const server = {
      type: 'streamable_http',
      url: 'https://h/mcp',
      headers: { A: '1' },
      env_http_headers: { B: 'VARIABLE' },
      bearer_token_env_var: 'TOKEN',
    };
    expect(declared(server).servers[0]!.server).toEqual({
      environmentId: 'worker',
      url: 'https://h/mcp',
      headers: { A: '1' },
      envHeaders: { B: 'VARIABLE' },
      bearerTokenEnvVar: 'TOKEN',
    });
    const { servers } = declared({ url: 'http://h', http_headers: { C: '2' } });
    expect(servers[0]!.server).toMatchObject({ headers: { C: '2' } });
  });
});

describe('an unusable declaration', () => {
  it.each<[object | null, string]>([
    [null, 'it is not an object'],
    [{}, "it has neither 'command' nor 'url'"],
    [{ command: 'x', url: 'http://h' }, "it has both 'command' and 'url'"],
    [{ command: '' }, "its 'command' is empty"],
    [{ command: ['x'] }, "its 'command' is not a text"],
    [{ type: 'sse', url: 'http://h' }, "its type 'sse' is not supported"],
    [{ command: 'x', args: 'y' }, "its 'args' is not a list of texts"],
    [{ command: 'x', env: { A: 1 } }, "its 'env' is not an object of texts"],
    [{ command: 'x', cwd: '../y' }, "its 'cwd' must remain below"],
    [{ command: 'x', cwd: 'a\\..\\y' }, "its 'cwd' must remain below"],
    [{ command: 'x', cwd: 'C:y' }, "its 'cwd' must remain below"],
    [{ command: 'x', env_vars: 'A' }, "its 'env_vars' is not a list"],
    [{ command: 'x', env_vars: ['A*'] }, 'not the name of a variable'],
    [{ command: 'x', env_vars: [{ name: 'A', source: 'local' }] }, "must have the source 'remote'"],
    [{ url: 'ftp://h' }, "its 'url' is not an HTTP URL"],
    [{ url: 'http://h', headers: [] }, "its 'headers' is not an object of texts"],
  ])('%j is skipped with a warning', (server, message) => {
    const { servers, warnings } = declared(server);
    expect(servers).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining(`MCP server 's' of plugin 'tools@1' is skipped: `)]);
    expect(warnings[0]).toContain(message);
  });

  it('shows no values', () => {
    const { warnings } = declared({ url: 'secret', headers: { A: 'secret' } });
    expect(warnings[0]).not.toContain('secret');
  });
});
