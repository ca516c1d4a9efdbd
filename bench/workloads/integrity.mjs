import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Connection } from '../wire/connection.mjs';
import { valueAtLeast } from './goals.mjs';
import { MB, unbufferedLines } from './programs.mjs';

/** @type {import('./index.mjs').Workload[]} */
export const integrity = [
  {
    name: 'integrity',
    title: 'SHA-256 of what pipes and a terminal carry',
    rows: [
      { key: 'intact', label: 'every byte arrives', unit: 'yes/no', better: null, goal: valueAtLeast(1) },
    ],
    async run({ url, quick, work }) {
      const folder = mkdtempSync(join(work, 'integrity-'));
      try {
        await checkAll(await Connection.ready(url), folder, quick);
        return { intact: 1 };
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  },
];

async function checkAll(connection, folder, quick) {
  const random = randomBytes((quick ? 2 : 16) * MB);
  const file = join(folder, 'random');
  writeFileSync(file, random);
  const lines = quick ? 5_000 : 50_000;
  const text = Array.from({ length: lines }, (_, i) => `${String(i + 1).padStart(79, '0')}\n`).join('');
  const raw = ['sh', '-c', `stty raw -echo; exec head -c ${2 * MB} ${file}`];
  await Promise.all([
    ...[1, 2, 3, 4].map((i) => check(connection, `pipe${i}`, ['cat', file], false, random)),
    check(connection, 'lines', unbufferedLines(lines), false, Buffer.from(text)),
    check(connection, 'tty', raw, true, random.subarray(0, 2 * MB)),
  ]);
}

async function check(connection, id, argv, tty, expected) {
  const tracked = await connection.start(id, argv, { tty, digest: true });
  await tracked.finish({ bytes: expected.length });
  const wanted = createHash('sha256').update(expected).digest('hex');
  if (tracked.digest() !== wanted) throw new Error(`process ${id}: the bytes were altered`);
}
