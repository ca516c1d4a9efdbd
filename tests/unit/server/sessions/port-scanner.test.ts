import { describe, expect, test } from 'vitest';
import type { ProcessTree } from '../../../../src/process/tree/kill-tree.ts';
import type { ListeningPort, ListeningPorts } from '../../../../src/process/tree/listening-ports.ts';
import { MAX_REPORTED_PORTS } from '../../../../src/server/limits.ts';
import { ConnectionPorts } from '../../../../src/server/sessions/connection-ports.ts';
import { PortScanner, type PortsByRef } from '../../../../src/server/sessions/port-scanner.ts';
import type { SharedProcess } from '../../../../src/server/sessions/shared-process.ts';
import { waitFor } from '../../../support/wait-for.ts';

const PORT: ListeningPort = { port: 8080, address: '127.0.0.1', ownNetwork: false };

/** A scanner over one process whose scans the test ends. */
function fixture({ closed = false } = {}) {
  const tree: ProcessTree = { pid: 1, tag: 1n, reaped: false };
  const scans: { trees: ProcessTree[]; end: (ports: ListeningPort[]) => void }[] = [];
  const process = { ref: 'a', end: closed ? {} : null, process: { tree } } as unknown as SharedProcess;
  const ports = {
    scan: (trees: Iterable<ProcessTree>) =>
      new Promise((resolve) => {
        scans.push({ trees: [...trees], end: (found) => resolve(new Map([[tree, found]])) });
      }),
  } as unknown as ListeningPorts;
  const scanner = new PortScanner({ list: () => [process] }, async () => ports);
  return { scanner, scans, tree };
}

describe.runIf(process.platform === 'linux')('PortScanner', () => {
  test('runs one scan at a time, which serves all that asked before it began', async () => {
    const { scanner, scans } = fixture();
    const [first, second] = [scanner.scan(), scanner.scan()];
    await waitFor('the first scan', () => scans.length === 1);
    const [third, fourth] = [scanner.scan(), scanner.scan()];
    scans[0]!.end([PORT]);
    expect(await first).toEqual(new Map([['a', [PORT]]]));
    expect(await second).toBe(await first);
    await waitFor('the second scan', () => scans.length === 2);
    scans[1]!.end([]);
    expect(await third).toBe(await fourth);
    expect(await third).not.toBe(await first);
    expect(scans).toHaveLength(2);
  });

  test('leaves out closed processes', async () => {
    const { scanner, scans } = fixture({ closed: true });
    const scanning = scanner.scan();
    await waitFor('the scan', () => scans.length === 1);
    expect(scans[0]!.trees).toEqual([]);
    scans[0]!.end([]);
    await scanning;
  });

  test('scans repeatedly while a listener watches', async () => {
    const { scanner, scans } = fixture();
    const reports: PortsByRef[] = [];
    const stop = scanner.watch((ports) => reports.push(ports));
    await waitFor('the first scan', () => scans.length === 1);
    scans[0]!.end([PORT]);
    await waitFor('the second scan', () => scans.length === 2);
    expect(reports).toEqual([new Map([['a', [PORT]]])]);
    stop();
    scans[1]!.end([]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(reports).toHaveLength(1);
  });
});

describe('ConnectionPorts', () => {
  /** Watches whose scans find what the test says. */
  function watching() {
    const state = { found: [] as ListeningPort[], listener: (_: PortsByRef) => {} };
    const scanner = {
      scan: async () => new Map([['a', state.found]]),
      watch: (listener: (ports: PortsByRef) => void) => {
        state.listener = listener;
        return () => {
          state.listener = () => {};
        };
      },
    } as unknown as PortScanner;
    const sent: number[] = [];
    const peer = {
      saturated: false,
      notify: (_: string, params: { ports: unknown[] }) => sent.push(params.ports.length),
    };
    const ports = new ConnectionPorts(peer, scanner, { list: () => [{ ref: 'a' }] });
    const report = (found: ListeningPort[]) => state.listener(new Map([['a', found]]));
    return { ports, peer, sent, state, report };
  }

  test('reports changes only, and the latest state after the client was slow', async () => {
    const { ports, peer, sent, report } = watching();
    (await ports.watch('w')).start();
    report([]);
    expect(sent).toEqual([]);
    report([PORT]);
    report([PORT]);
    expect(sent).toEqual([1]);
    peer.saturated = true;
    report([]);
    peer.saturated = false;
    report([PORT, { ...PORT, port: 1 }]);
    expect(sent).toEqual([1, 2]);
    ports.dispose();
    report([]);
    expect(sent).toEqual([1, 2]);
  });

  test('does not start a watch that was ended meanwhile', async () => {
    const { ports, sent, report } = watching();
    const { start } = await ports.watch('w');
    ports.unwatch('w');
    start();
    report([PORT]);
    expect(sent).toEqual([]);
    ports.dispose();
    await expect(ports.watch('w')).rejects.toThrow('the connection has ended');
  });

  test('reports a limited number of ports, and which of them can be reached', async () => {
    const { ports, state } = watching();
    state.found = Array.from({ length: MAX_REPORTED_PORTS + 1 }, (_, port) => ({ ...PORT, port }));
    expect((await ports.watch('many')).ports).toHaveLength(MAX_REPORTED_PORTS);
    state.found = [
      { ...PORT, address: '::' },
      { ...PORT, address: '10.0.0.1' },
      { ...PORT, ownNetwork: true },
    ];
    const { ports: few } = await ports.watch('few');
    expect(few.map(({ reachable }) => reachable)).toEqual([true, false, false]);
  });
});
