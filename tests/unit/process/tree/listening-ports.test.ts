import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import type { ProcessTree } from '../../../../src/process/tree/kill-tree.ts';
import { ListeningPorts } from '../../../../src/process/tree/listening-ports.ts';
import { waitFor } from '../../../support/wait-for.ts';

/** Listens on each host, prints the ports, and closes one listener for each line of input. */
const LISTEN = `
  const servers = process.argv.slice(1).map((host) => require('net').createServer().listen(0, host));
  Promise.all(servers.map((server) => require('events').once(server, 'listening'))).then(() =>
    console.log(JSON.stringify(servers.map((server) => server.address().port))));
  require('readline').createInterface(process.stdin).on('line', () => {
    servers.shift().close(() => console.log('closed'));
  });`;

interface Program {
  readonly tree: ProcessTree;
  readonly child: ChildProcess;
  nextLine(): Promise<string>;
}

function start(program: string, ...args: string[]): Program {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
  onTestFinished(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // It has ended.
    }
  });
  const lines = createInterface(child.stdout!)[Symbol.asyncIterator]();
  return {
    tree: { pid: child.pid!, tag: null, reaped: false },
    child,
    nextLine: async () => (await lines.next()).value as string,
  };
}

const untagged = () => null;

test('finds the ports of a program and of its descendants, and no others', async () => {
  const own = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void own.close());
  await once(own, 'listening');
  const direct = start(process.execPath, '-e', LISTEN, '127.0.0.1', '0.0.0.0');
  const nested = start('sh', '-c', '"$@" & wait', 'sh', process.execPath, '-e', LISTEN, '::1');
  const [loopback, any] = JSON.parse(await direct.nextLine());
  const [six] = JSON.parse(await nested.nextLine());
  const found = await new ListeningPorts(untagged).scan([direct.tree, nested.tree]);
  const byPort = (a: { port: number }, b: { port: number }) => a.port - b.port;
  expect(found.get(direct.tree)?.sort(byPort)).toEqual(
    [
      { port: loopback, address: '127.0.0.1', ownNetwork: false },
      { port: any, address: '0.0.0.0', ownNetwork: false },
    ].sort(byPort),
  );
  expect(found.get(nested.tree)).toEqual([{ port: six, address: '::1', ownNetwork: false }]);
  const { port: ownPort } = own.address() as AddressInfo;
  expect([...found.values()].flat().filter(({ port }) => port === ownPort)).toEqual([]);
});

test('recognises processes by their tag', async () => {
  const program = start(process.execPath, '-e', LISTEN, '127.0.0.1');
  const [port] = JSON.parse(await program.nextLine());
  const tree = { pid: 1, tag: 7n, reaped: true };
  const ports = new ListeningPorts((pid) => (pid === program.tree.pid ? 7n : null));
  expect((await ports.scan([tree])).get(tree)).toMatchObject([{ port }]);
});

test('looks into the descriptors of processes only when a socket is new', async () => {
  const program = start(process.execPath, '-e', LISTEN, '127.0.0.1', '127.0.0.1');
  const [first, second] = JSON.parse(await program.nextLine());
  const ports = new ListeningPorts(untagged);
  const scanned = async () => (await ports.scan([program.tree])).get(program.tree)?.map(({ port }) => port);
  expect((await scanned())?.sort()).toEqual([first, second].sort());
  program.child.stdin!.write('\n');
  expect(await program.nextLine()).toBe('closed');
  expect(await scanned()).toEqual([second]);
  // Other programs of the machine may open ports at any time.
  await waitFor('a scan without a new socket', async () => {
    const before = ports.descriptorScans;
    expect(await scanned()).toEqual([second]);
    return ports.descriptorScans === before;
  });
});

test('reports ports of another network namespace as such', async ({ skip }) => {
  if (spawnSync('unshare', ['-Urn', 'true']).status !== 0) skip('no user namespaces');
  const program = start('unshare', '-Urn', process.execPath, '-e', LISTEN, '0.0.0.0');
  const [port] = JSON.parse(await program.nextLine());
  const found = await new ListeningPorts(untagged).scan([program.tree]);
  expect(found.get(program.tree)).toEqual([{ port, address: '0.0.0.0', ownNetwork: true }]);
});

test('looks at each process once, however many trees it scans', async () => {
  const program = start(process.execPath, '-e', LISTEN, '127.0.0.1');
  const [port] = JSON.parse(await program.nextLine());
  const trees = Array.from({ length: 1_000 }, (_, index) => ({ pid: 1, tag: BigInt(index), reaped: true }));
  const looks = new Map<number, number>();
  const ports = new ListeningPorts((pid) => {
    looks.set(pid, (looks.get(pid) ?? 0) + 1);
    return pid === program.tree.pid ? 500n : null;
  });
  expect([...(await ports.scan(trees))]).toEqual([[trees[500], [expect.objectContaining({ port })]]]);
  expect(looks.size).toBeGreaterThan(1);
  expect(Math.max(...looks.values())).toBe(1);
});

test('finds a port among hundreds of programs, and does not open their descriptors again', async () => {
  const many = start('sh', '-c', 'for i in $(seq 300); do sleep 600 <&- >&- & echo $!; done; wait');
  const trees: ProcessTree[] = [];
  while (trees.length < 300) trees.push({ pid: Number(await many.nextLine()), tag: null, reaped: false });
  const program = start(process.execPath, '-e', LISTEN, '127.0.0.1');
  const [port] = JSON.parse(await program.nextLine());
  const ports = new ListeningPorts(untagged);
  const scanned = () => ports.scan([...trees, program.tree]);
  const expected = [[program.tree, [expect.objectContaining({ port })]]];
  expect([...(await scanned())]).toEqual(expected);
  // Other programs of the machine may open ports at any time.
  await waitFor('a scan without a new socket', async () => {
    const before = ports.descriptorScans;
    expect([...(await scanned())]).toEqual(expected);
    return ports.descriptorScans === before;
  });
});

test('shares the event loop while it scans', async () => {
  const program = start(process.execPath, '-e', LISTEN, '127.0.0.1');
  await program.nextLine();
  // As many processes as the machine has, each of which seems to take long.
  const slow = (pid: number) => {
    for (const end = performance.now() + 0.5; performance.now() < end; );
    return pid === program.tree.pid ? 7n : null;
  };
  let turns = 0;
  let scanning = true;
  const count = () => {
    turns++;
    if (scanning) setImmediate(count);
  };
  setImmediate(count);
  const tree = { pid: 1, tag: 7n, reaped: true };
  expect((await new ListeningPorts(slow).scan([tree])).size).toBe(1);
  scanning = false;
  expect(turns).toBeGreaterThan(1);
});
