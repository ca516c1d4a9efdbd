import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import type { SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import type { SandboxContext } from '../../../../src/protocol/sandbox.ts';
import { programNetwork, type StartNetwork } from '../../../../src/server/handlers/program-network.ts';
import { uri } from '../../../support/escape-scene.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { settings } from '../../network/proxy/scene.ts';

const GITHUB = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789';

let home = '';
let proxies: ProxyResources;
const open: StartNetwork[] = [];

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'program-network-'));
  proxies = new ProxyResources(async () => [], { CODEX_HOME: home });
});
afterEach(async () => {
  for (const network of open.splice(0)) network.close();
  await waitFor('the file to go', () => !existsSync(join(home, 'proxy')));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** The network of a start whose credentials are to be masked. */
function masked(start: object = {}): StartNetwork {
  const services = {
    session: { policyQuestions: {}, policyDecisions: { end: () => {}, report: () => {} } },
    proxies,
    sandboxEnforcer: { networkForbidden: false },
    log: {},
  };
  const networkProxy = { proxy: settings({ credentialMasking: true }), auditMetadata: {} };
  const network = programNetwork(services as never, { processId: 'p', networkProxy, ...start } as never)!;
  open.push(network);
  return network;
}

const specWith = (env: Record<string, string>) => ({ env }) as unknown as SpawnSpec;
const signal = new AbortController().signal;

describe('the sandbox of a masked program', () => {
  const restricted = (entries: unknown[]) =>
    ({
      permissions: { type: 'managed', file_system: { type: 'restricted', entries }, network: 'enabled' },
      windowsSandboxLevel: 'disabled',
    }) as unknown as SandboxContext;

  test('lets it read whom to trust, and no more than that', () => {
    const other = { path: { type: 'path', path: 'file:///usr' }, access: 'read' };
    const readable = { path: { type: 'path', path: uri(proxies.bundlePath) }, access: 'read' };
    expect(masked({ sandbox: restricted([other]) }).sandbox).toEqual(restricted([other, readable]));
  });

  test.each([
    [null],
    [{ type: 'readOnly', networkAccess: false }],
    [{ permissions: { type: 'disabled' }, windowsSandboxLevel: 'disabled' }],
  ])('is as it was where every file can be read: %j', (sandbox) => {
    expect(masked({ sandbox }).sandbox).toEqual(sandbox);
  });

  test('is as it was where nothing is masked', () => {
    const sandbox = restricted([]);
    const networkProxy = { proxy: settings(), auditMetadata: {} };
    expect(masked({ sandbox, networkProxy }).sandbox).toBe(sandbox);
  });
});

test('a program that is not masked keeps its credentials', async () => {
  const networkProxy = { proxy: settings(), auditMetadata: {} };
  const wrapInSandbox = masked({ networkProxy }).around(null);
  const { spec } = await wrapInSandbox(specWith({ GH_TOKEN: GITHUB }), signal);
  expect(spec?.env.GH_TOKEN).toBe(GITHUB);
});
