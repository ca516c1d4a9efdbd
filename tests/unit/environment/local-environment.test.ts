import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ConnectionState } from '../../../src/environment/environment.ts';
import { LocalEnvironment } from '../../../src/environment/local-environment.ts';
import { shell } from '../../support/programs.ts';

let environment: LocalEnvironment;
beforeEach(() => {
  environment = new LocalEnvironment();
});
afterEach(() => environment.dispose());

it('is ready at once', async () => {
  expect(environment).toMatchObject({ id: 'local', kind: 'local', startupFinished: true });
  expect(environment.readiness).toEqual({ ready: true });
  expect(environment.connection).toEqual({ connected: true, reason: null });
  expect(await environment.status()).toEqual({ status: 'ready', error: null });
  environment.startConnecting();
  environment.startForUse();
  await environment.waitUntilReady();
  await environment.restart();
  environment.hold()();
});

it('describes this machine', async () => {
  const info = await environment.info();
  expect(info.shell.path).toMatch(/^\/.*(?:bash|zsh|sh)$/);
  expect(info.cwd).toMatch(/^file:\/\/\//);
  expect(info.userHomeDir).toMatch(/^file:\/\/\//);
  expect(info.tempDir).toMatch(/^file:\/\/\//);
  expect(info.platformOs).toMatch(/^(?:linux|macos|windows)$/);
  expect(info.capabilities.processCloseStdin).toBe(true);
});

it('kills what is left at its end, and is disconnected then', async () => {
  const seen: ConnectionState[] = [];
  environment.watchConnection((state) => seen.push(state));
  const process = await environment.backend.start(shell('p', 'exec sleep 1000'));
  await environment.dispose();
  await environment.dispose();
  expect(process.state.exited).toBe(true);
  const reason = "environment 'local' was closed";
  expect(seen).toEqual([
    { connected: true, reason: null },
    { connected: false, reason },
  ]);
  expect(environment.readiness).toMatchObject({ ready: false, error: { kind: 'closed' } });
  expect(await environment.status()).toEqual({ status: 'disconnected', error: reason });
  await expect(environment.waitUntilReady()).rejects.toMatchObject({ kind: 'closed' });
});
