import { describe, expect, it } from 'vitest';
import { RemoteDiscovery } from '../../../src/client/remote-discovery.ts';

const file = { path: 'file:///r/x', contents: 'x' };
const root = {
  id: 'r',
  path: 'file:///r',
  plugin: { manifest: file, mcpConfig: null, appsConfig: file },
  skills: [{ instructions: file, metadata: null }],
  namespaceManifests: [file],
  warnings: ['w'],
  error: null,
};

function discover(answer: unknown, calls: unknown[][] = []) {
  const discovery = new RemoteDiscovery({
    call: async (...args) => {
      calls.push(args);
      return answer as never;
    },
  });
  return discovery.discover([{ id: 'r', path: 'file:///r' }], { timeoutMs: 5 });
}

describe('RemoteDiscovery', () => {
  it('requests the roots and returns the result', async () => {
    const calls: unknown[][] = [];
    expect(await discover({ roots: [root] }, calls)).toEqual([root]);
    expect(calls).toEqual([
      ['capabilityRoots/discoverV1', { roots: [{ id: 'r', path: 'file:///r' }] }, { timeoutMs: 5 }],
    ]);
  });

  it.each([
    ['a null result', null],
    ['no roots', {}],
    ['roots that are not a list', { roots: {} }],
    ['a null root', { roots: [null] }],
    ['an id that is not a string', { roots: [{ ...root, id: 1 }] }],
    ['no path', { roots: [{ ...root, path: undefined }] }],
    [
      'a broken plugin',
      { roots: [{ ...root, plugin: { manifest: null, mcpConfig: null, appsConfig: null } }] },
    ],
    ['a broken configuration', { roots: [{ ...root, plugin: { ...root.plugin, mcpConfig: 'x' } }] }],
    ['a broken skill', { roots: [{ ...root, skills: [{ instructions: null, metadata: null }] }] }],
    ['a broken manifest', { roots: [{ ...root, namespaceManifests: ['x'] }] }],
    ['a broken warning', { roots: [{ ...root, warnings: [1] }] }],
    ['a broken error', { roots: [{ ...root, error: 1 }] }],
  ])('rejects %s', async (_, answer) => {
    await expect(discover(answer)).rejects.toMatchObject({ kind: 'protocol' });
  });
});
