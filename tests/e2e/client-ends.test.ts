import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { communicate, connect, type ExecServerClient } from '../../src/client/index.ts';
import { type Environment, LocalEnvironment } from '../../src/environment/index.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { processesWith } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'client-ends-'));
let server: TestServer;
let client: ExecServerClient;
const local = new LocalEnvironment();
beforeAll(async () => {
  server = await startServer();
  client = await connect(server.url);
  await local.run(['true']);
});
afterAll(async () => {
  await client.close();
  await server.close();
  await local.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** A shell that waits for a child with a mark, by which the test finds it. */
const marked = (mark: string) => ['sh', '-c', 'sleep 600; true', join(folder, mark)];

describe.each(['remote', 'local'])('%s', (place) => {
  const host = (): Pick<Environment, 'run' | 'spawn' | 'processes'> => (place === 'local' ? local : client);

  test('the end of a process says why, in the words of run', async () => {
    const timedOut = await host().spawn(['sleep', '600'], { timeoutMs: 1_000 });
    const killed = { exitCode: 137, signal: 'SIGKILL', reason: null };
    expect(await timedOut.wait()).toMatchObject({ ...killed, timedOut: true });
    expect(timedOut.state).toMatchObject({ ...killed, timedOut: true });
    expect(await host().run(['sleep', '600'], { timeoutMs: 1_000 })).toMatchObject({
      ...killed,
      timedOut: true,
    });
    const ended = await host().spawn(['sleep', '600'], { timeoutMs: 600_000 });
    await ended.kill();
    expect(await ended.wait()).toMatchObject({ ...killed, timedOut: false });
    const fine = await host().spawn(['true'], { timeoutMs: 600_000 });
    expect(await fine.wait()).toMatchObject({ exitCode: 0, signal: null, timedOut: false, reason: null });
  });

  test('the end of a process names the limit of the server that ended it', async () => {
    const limits = { wallMs: 100 };
    const process = await host().spawn(['sleep', '600'], { limits });
    expect(await process.wait()).toMatchObject({ exitCode: 137, reason: 'timeout', timedOut: false });
    expect(await host().run(['sleep', '600'], { limits })).toMatchObject({
      reason: 'timeout',
      timedOut: false,
    });
    const again = await host().processes.get(process.ref!);
    expect(again).toMatchObject({ exitCode: 137, signal: 'SIGKILL', reason: 'timeout', state: 'closed' });
  });

  test('with a timeout of 0 nothing is started', async () => {
    const before = (await host().processes.list()).length;
    const timeout = { kind: 'timeout', message: expect.stringContaining('leave it out for no limit') };
    await expect(host().run(['true'], { timeoutMs: 0 })).rejects.toMatchObject(timeout);
    await expect(host().spawn(['true'], { timeoutMs: 0 })).rejects.toMatchObject(timeout);
    expect((await host().processes.list()).length).toBe(before);
  });

  test('a timeout of 1 ends the program, started or not', async () => {
    const argv = marked(`short-${place}`);
    for (let attempt = 0; attempt < 10; attempt++) {
      const outcome = await host()
        .run(argv, { timeoutMs: 1 })
        .catch((error: unknown) => error);
      expect(outcome).toMatchObject(outcome instanceof Error ? { kind: 'timeout' } : { timedOut: true });
    }
    await waitFor('the end of the programs', () => processesWith(argv.at(-1)!).length === 0);
  });

  test('a wait with a timeout of 0 asks whether the process has ended', async () => {
    const process = await host().spawn(['cat'], { pipeStdin: true });
    await expect(process.wait({ timeoutMs: 0 })).rejects.toMatchObject({ kind: 'timeout' });
    await process.closeStdin();
    await process.wait();
    expect(await process.wait({ timeoutMs: 0 })).toMatchObject({ exitCode: 0 });
    await expect(process.wait({ signal: AbortSignal.abort() })).rejects.toMatchObject({ kind: 'aborted' });
  });

  test('a write after closeStdin, or after the exit, says so', async () => {
    const process = await host().spawn(['sh', '-c', 'cat; sleep 600'], { pipeStdin: true });
    await process.write('x');
    await process.closeStdin();
    const shown = `sh (process ${process.ref})`;
    await expect(process.write('y')).rejects.toMatchObject({
      kind: 'stdinClosed',
      message: `cannot write to ${shown}: its stdin is closed; \`closeStdin\` was called, or the process was terminated`,
    });
    await process.kill();
    await process.wait();
    await expect(process.write('y')).rejects.toMatchObject({
      kind: 'stdinClosed',
      message: `cannot write to ${shown}: it has exited with code 137`,
    });
  });

  test('detach ends loops over the output, and the process says why', async () => {
    const process = await host().spawn(['sh', '-c', 'echo one; sleep 600']);
    const reading = (async () => {
      let text = '';
      for await (const piece of process) {
        text += piece;
        await process.detach();
      }
      return text;
    })();
    const events = (async () => {
      const types: string[] = [];
      for await (const { type } of process.events()) types.push(type);
      return types;
    })();
    const talking = communicate(process, undefined).catch((error: unknown) => error);
    expect(await reading).toBe('one\n');
    expect(await events).toEqual(['output']);
    const detached = {
      kind: 'closed',
      message: expect.stringContaining(`detached from sh (process ${process.ref})`),
    };
    expect(process.state).toMatchObject({ exited: false, failure: detached });
    expect(await talking).toMatchObject(detached);
    await expect(process.wait()).rejects.toMatchObject(detached);
    expect(await host().processes.terminate(process.ref!)).toBe(true);
  });

  test('errors name the program, not the id that the client made up', async () => {
    const process = await host().spawn(['sleep', '600']);
    const shown = `sleep (process ${process.ref})`;
    for (const [call, message] of [
      [() => process.wait({ timeoutMs: 5 }), `waiting for ${shown} took longer than 5 ms`],
      [() => process.write('x'), `${shown} has no stdin to write to`],
      [() => process.terminate(undefined, { timeoutMs: 0 }), `terminating ${shown} took longer than 0 ms`],
    ] as const) {
      const error = await call().catch((thrown: Error) => thrown);
      expect((error as Error).message).toContain(message);
      expect((error as Error).message).not.toContain(process.processId);
    }
    await process.kill();
  });
});
