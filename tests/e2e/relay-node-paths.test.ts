import { afterAll, expect, onTestFinished, test } from 'vitest';
import { connectRemote } from '../../src/relay/index.ts';
import { onFreePort } from '../support/free-port.ts';
import { PathProxy } from '../support/path-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { Workspace } from '../unit/cli/run-cli.ts';
import { RedisServer } from '../unit/relay/service/redis-server.ts';
import { token } from '../unit/relay/service/relay-fixture.ts';
import { relayFolder, startNode } from './relay-nodes.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

/**
 * Starts two nodes behind a proxy, as the Helm chart does: the public URL leads to any node, and each node has a path below it.
 * `sendTo` chooses the node of the public URL.
 */
async function startNodes(base: string, strips: boolean) {
  const redis = await RedisServer.start();
  const proxy = await PathProxy.start(strips);
  onTestFinished(() => proxy.close());
  const folder = relayFolder();
  const publicUrl = `${proxy.url}${base}`;
  const ports: number[] = [];
  for (const name of ['node-0', 'node-1']) {
    const urls = ['--public-url', publicUrl, '--node-url', `${publicUrl}/${name}`];
    await onFreePort(async (port) => {
      const listen = ['--listen', `http://127.0.0.1:${port}`];
      await startNode(folder, '--store', redis.url, ...listen, ...urls);
      proxy.routes.set(`${base}/${name}/`, port);
      ports.push(port);
    });
  }
  const sendTo = (index: number) => proxy.routes.set(`${base}/`, ports[index]!);
  return { proxy, publicUrl, sendTo };
}

test.each([
  ['the proxy keeps the path of a node', '', false],
  ['the proxy removes the path of a node', '', true],
  ['the public URL has a path too', '/base', false],
])(
  'a client reaches an executor at another node by the path of that node: %s',
  async (_name, base, strips) => {
    const { proxy, publicUrl, sendTo } = await startNodes(base, strips);
    sendTo(0);
    const executor = workspace.start(['serve', '--remote', publicUrl, '--environment-id', 'env-1'], {
      EXEC_SERVER_API_KEY: token('executor'),
    });
    onTestFinished(async () => {
      executor.child.kill();
      await executor.outcome;
    });
    let log = '';
    executor.child.stderr.on('data', (text) => {
      log += text;
    });
    await waitFor('the executor', () => log.includes('connected to '));
    sendTo(1);
    const client = await connectRemote({
      registryUrl: publicUrl,
      environmentId: 'env-1',
      auth: token('harness'),
    });
    onTestFinished(() => client.close());
    const { text, exitCode } = await client.run(['sh', '-c', 'echo reached; exit 7']);
    expect([text.stdout, exitCode]).toEqual(['reached\n', 7]);
    // The executor has opened its socket by the public URL, the client by that of the executor's node.
    expect(proxy.upgrades).toEqual([`${base}/`, `${base}/node-0/`]);
  },
);
