import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { wait } from '../../src/client/index.ts';
import { type Environment, EnvironmentManager, type SandboxRequest } from '../../src/environment/index.ts';
import { startServer } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';

let folder: string;
let ends: (() => unknown)[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sandboxed-environments-'));
  ends = [() => rmSync(folder, { recursive: true, force: true })];
  for (const name of ['workspace', 'outside']) mkdirSync(join(folder, name));
});
afterEach(async () => {
  for (const end of ends.reverse()) await end();
});

const uri = (name: string) => pathToFileURL(join(folder, name)).href;

/** Every file but `denied` is readable, and the workspace is writable. */
function sandbox(...denied: string[]): SandboxRequest {
  const special = (kind: 'root' | 'project_roots', access: 'read' | 'write') =>
    ({ path: { type: 'special', value: { kind } }, access }) as const;
  const denials = denied.map(
    (name) => ({ path: { type: 'path', path: uri(name) }, access: 'deny' }) as const,
  );
  return {
    permissions: {
      type: 'managed',
      file_system: {
        type: 'restricted',
        entries: [special('root', 'read'), special('project_roots', 'write'), ...denials],
      },
      network: 'restricted',
    },
    cwd: uri('workspace'),
    workspaceRoots: [uri('workspace')],
    windowsSandboxLevel: 'disabled',
  };
}

async function open(kind: string): Promise<Environment> {
  const manager = new EnvironmentManager({ environments: [], default: null, includeLocal: true });
  ends.push(() => manager.dispose());
  if (kind === 'local') return manager.get('local')!;
  const server = await startServer({ followDiscoveryLinks: true });
  ends.push(() => server.close());
  const environment = manager.add('worker', { type: 'websocket', url: server.url });
  await environment.waitUntilReady();
  return environment;
}

describe.each(['local', 'websocket'])('a sandbox in an environment: %s', (kind) => {
  test('applies to programs, which report it as the reason of their failure', async () => {
    const environment = await open(kind);
    const script = 'echo in > in; echo out > ../outside/out';
    const start = { ...shell('sandboxed', script), cwd: uri('workspace'), sandbox: sandbox() };
    const process = await environment.backend.start(start);
    expect(process.sandboxType).toBe('linuxSeccomp');
    expect(await wait(process)).toMatchObject({ exitCode: 2, sandboxDenied: true });
    expect(readFileSync(join(folder, 'workspace/in'), 'utf8')).toBe('in\n');
    expect(() => readFileSync(join(folder, 'outside/out'))).toThrow(/ENOENT/);
  });

  test('applies to files', async () => {
    const { fileSystem: files } = await open(kind);
    const sandboxed = { sandbox: sandbox('outside') };
    writeFileSync(join(folder, 'outside/secret'), 'secret');
    await files.writeFile(uri('workspace/file'), 'text', sandboxed);
    expect(await files.readFileText(uri('workspace/file'), sandboxed)).toBe('text');
    await expect(files.readFile(uri('outside/secret'), sandboxed)).rejects.toMatchObject({ code: -32600 });
    await expect(files.writeFile(uri('new'), 'x', sandboxed)).rejects.toMatchObject({ code: -32603 });
    expect((await files.search(uri('.'), 'secret|text', sandboxed)).matches).toMatchObject([
      { text: 'text' },
    ]);
    await expect(files.watch(uri('outside'), sandboxed)).rejects.toMatchObject({ code: -32600 });
    expect(await files.readFileText(uri('outside/secret'))).toBe('secret');
  });

  test('applies to hashes and transfers', async () => {
    const { files } = await open(kind);
    const sandboxed = { sandbox: sandbox('outside') };
    writeFileSync(join(folder, 'outside/secret'), 'secret');
    mkdirSync(join(folder, 'source'));
    writeFileSync(join(folder, 'source/file'), 'text');
    const sent = await files.upload(join(folder, 'source'), uri('workspace/copy'), sandboxed);
    expect(sent).toMatchObject({ files: 1, verified: 'sha256', atomic: true });
    expect(await files.hash(uri('workspace/copy/file'), sandboxed)).toMatchObject({ size: 4 });
    const back = await files.download(uri('workspace/copy'), join(folder, 'back'), sandboxed);
    expect(back).toMatchObject({ files: 1, verified: 'sha256' });
    expect(readFileSync(join(folder, 'back/file'), 'utf8')).toBe('text');
    for (const forbidden of [
      () => files.hash(uri('outside/secret'), sandboxed),
      () => files.download(uri('outside/secret'), join(folder, 'stolen'), sandboxed),
      () => files.upload(join(folder, 'source'), uri('new'), sandboxed),
    ]) {
      await expect(forbidden()).rejects.toMatchObject({ kind: 'permissionDenied' });
    }
    expect(() => readFileSync(join(folder, 'stolen'))).toThrow(/ENOENT/);
  });

  test('applies to capability discovery: denied files are not read', async () => {
    const { discovery } = await open(kind);
    for (const name of ['root/open', 'root/closed', 'outside/skill']) {
      mkdirSync(join(folder, name), { recursive: true });
      writeFileSync(join(folder, name, 'SKILL.md'), name);
    }
    const skills = async (...denied: string[]) => {
      const root = { id: 'r', path: uri('root'), ...(denied.length > 0 && { sandbox: sandbox(...denied) }) };
      const [found] = await discovery.discover([root]);
      return found!.skills.map(({ instructions }) => instructions.contents);
    };
    expect(await skills()).toEqual(['root/closed', 'root/open']);
    expect(await skills('root/closed')).toEqual(['root/open']);
    if (kind === 'local') return;
    symlinkSync(join(folder, 'outside'), join(folder, 'root/way'));
    expect(await skills('workspace')).toEqual(['root/closed', 'root/open', 'outside/skill']);
    expect(await skills('outside')).toEqual(['root/closed', 'root/open']);
    expect(await skills('outside/skill')).toEqual(['root/closed', 'root/open']);
  });
});
