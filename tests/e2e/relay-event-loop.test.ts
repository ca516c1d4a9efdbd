import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { LoopWatch, MAX_REQUEST_BLOCK_MS, type Measured, shortestBlock } from '../hostile/index.mjs';
import { RELAY_ROWS } from '../hostile/relay-requests.ts';
import { Environment } from '../unit/relay/service/relay-fixture.ts';
import { relayFolder, startNode } from './relay-nodes.ts';

// Wrong tokens are answered with a delay.
vi.setConfig({ testTimeout: 180_000 });

const report: [string, Measured][] = [];
afterAll(() => {
  for (const [name, { blockMs }] of report
    .sort(([, one], [, other]) => other.blockMs - one.blockMs)
    .slice(0, 10)) {
    console.log(`${blockMs.toFixed(0).padStart(5)} ms of CPU: ${name}`);
  }
});

describe(`no input of a relay blocks its event loop for more than ${MAX_REQUEST_BLOCK_MS} ms`, () => {
  test.each(Object.entries(RELAY_ROWS))('%s', async (_kind, rows) => {
    const folder = relayFolder();
    const log = ['--log-level', 'debug', '--audit-log', `${folder}/audit`];
    const node = await startNode(folder, '--listen', 'http://127.0.0.1:0', ...log);
    const watch = new LoopWatch(node);
    onTestFinished(() => watch.close());
    for (const [name, { run, outcome }] of Object.entries(rows)) {
      const measured = await shortestBlock(MAX_REQUEST_BLOCK_MS, () =>
        watch.measure(async () => {
          const environment = new Environment(node.url, `row-${randomUUID().slice(0, 8)}`);
          expect(await run(environment), name).toEqual(outcome);
        }),
      );
      report.push([name, measured]);
      expect(measured.blockMs, name).toBeLessThan(MAX_REQUEST_BLOCK_MS);
    }
    expect(
      node
        .stderr()
        .split('\n')
        .filter((line) => line.includes('"level":"error"')),
    ).toEqual([]);
  });
});
