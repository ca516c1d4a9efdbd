import { expect, it } from 'vitest';
import { run } from '../../../../src/client/process/run.ts';
import type { Connector } from '../../../../src/environment/remote/connection.ts';
import { RemoteEnvironment } from '../../../../src/environment/remote/remote-environment.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer } from '../../client/fake-server.ts';

/** An environment on `server`, whose programs exit immediately. */
function environmentOf(server: FakeServer): RemoteEnvironment {
  server.answers['process/start'] = ({ processId }, link) => {
    link.exited(processId, 1);
    link.closedProcess(processId, 2);
    return { processId, sandboxType: 'none' };
  };
  const connector: Connector = {
    connect: async () => {
      const client = await server.connect();
      return { client, backend: client.backend, files: {} as never, http: client.http };
    },
    ...{ reconnects: true, eager: false, retryWindowMs: 0 },
  };
  return new RemoteEnvironment('box', connector);
}

it('runs a program in the working directory of the executor by default', async () => {
  const server = new FakeServer();
  const environment = environmentOf(server);
  await run(environment.backend, ['pwd']);
  await run(environment.backend, ['pwd'], { cwd: 'file:///elsewhere' });
  const folders = server.requests('process/start').map(({ params }) => params.cwd);
  expect(folders).toEqual(['file:///work', 'file:///elsewhere']);
  expect(await environment.backend.defaultCwd?.()).toBe((await environment.info()).cwd);
  await environment.dispose();
});

it('requests the working directory of an executor that does not send it in the handshake', async () => {
  const server = new FakeServer();
  server.environmentInfo = undefined;
  server.answers['environment/info'] = () => ({
    shell: { name: 'sh', path: '/bin/sh' },
    cwd: 'file:///reported',
  });
  const environment = environmentOf(server);
  await run(environment.backend, ['pwd']);
  expect(server.requests('process/start')[0]?.params.cwd).toBe('file:///reported');
  await environment.dispose();
});

it('connects to attach to a process, and keeps the connection until the process has ended', async () => {
  const server = new FakeServer();
  server.environmentInfo = { capabilities: { processSharing: true } };
  server.answers['process/attach'] = ({ ref }) => ({ processId: ref, ref, role: 'viewer', nextSeq: 1 });
  server.answers['process/detach'] = () => ({});
  server.answers['process/list'] = () => ({
    processes: [
      {
        processId: 'r',
        ref: 'r',
        name: 'build',
        argv: ['x'],
        cwd: 'file:///',
        state: 'running',
        startedAtMs: 1,
      },
    ],
  });
  const environment = environmentOf(server);
  const process = await environment.attach('r');
  expect((await environment.processes.get('build')).ref).toBe('r');
  environment.retire();
  expect(server.link.closed).toBeNull();
  server.link.exited('r', 1);
  server.link.closedProcess('r', 2);
  await process.wait();
  await waitFor('the end of the connection', () => server.link.closed);
  await environment.dispose();
});
