import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Connection } from '../wire/connection.mjs';
import { MaskedTail } from '../wire/frames.mjs';
import { peakResidentBytes } from '../wire/proc.mjs';
import { base64Of, fileAnswer } from './file-answers.mjs';
import { ratioAtMost, valueAtLeast } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, timed } from './pace.mjs';
import { MB } from './programs.mjs';
import { randomFile } from './work-files.mjs';

const KB = 1024;

/** @type {import('./index.mjs').Workload[]} */
export const fileContents = [
  {
    name: 'files-read-1kb',
    title: 'fs/readFile of 1 KB',
    rows: latencyRows('µs', { p50: ratioAtMost(1), p99: ratioAtMost(1.2) }),
    async run(context) {
      const samples = await readFiles(context, KB, { warmUp: 500, min: 100, max: 5_000, seconds: 5 });
      return latency(samples, 'µs');
    },
  },
  {
    name: 'files-read-1mb',
    title: 'fs/readFile of 1 MB',
    rows: latencyRows('ms', { p50: ratioAtMost(0.5) }),
    async run(context) {
      const samples = await readFiles(context, MB, { warmUp: 20, min: 20, max: 500, seconds: 4 });
      return latency(samples, 'ms');
    },
  },
  {
    name: 'files-read-100mb',
    title: 'fs/readFile of 100 MB',
    timeoutSeconds: 120,
    rows: [
      ...latencyRows('ms', { p50: ratioAtMost(0.2) }),
      { key: 'peak', label: 'peak RSS', unit: 'MB', better: 'lower', goal: ratioAtMost(0.2) },
    ],
    async run(context) {
      const bytes = (context.quick ? 2 : 100) * MB;
      const samples = await readFiles(context, bytes, { min: 5, max: 15, seconds: 6 });
      return { ...latency(samples, 'ms'), peak: peakResidentBytes(context.pid) / MB };
    },
  },
  writing(
    'files-write-1kb',
    '1 KB',
    KB,
    { p50: ratioAtMost(0.6), p99: ratioAtMost(1.2) },
    { warmUp: 200, min: 100, max: 3_000, seconds: 4 },
  ),
  writing(
    'files-write-1mb',
    '1 MB',
    MB,
    { p50: ratioAtMost(0.4) },
    { warmUp: 10, min: 20, max: 2_000, seconds: 4 },
  ),
  writing(
    'files-write-10mb',
    '10 MB',
    10 * MB,
    { p50: ratioAtMost(0.35) },
    { warmUp: 2, min: 10, max: 40, seconds: 4 },
  ),
  {
    name: 'files-write-40mb',
    title: 'fs/writeFile of 40 MB in one frame',
    rows: [{ key: 'accepted', label: 'accepted', unit: 'yes/no', better: null, goal: valueAtLeast(1) }],
    async run(context) {
      return { accepted: (await writeAtOnce(context, 40 * MB)) ? 1 : 0 };
    },
  },
];

/** @returns {import('./index.mjs').Workload} */
function writing(name, size, bytes, goals, pace) {
  return {
    name,
    title: `fs/writeFile of ${size}`,
    rows: latencyRows('ms', goals),
    async run(context) {
      return latency(await writeFiles(context, bytes, pace), 'ms');
    },
  };
}

/** How long each read of one file took, in milliseconds. */
async function readFiles({ url, quick, work }, bytes, pace) {
  const path = randomFile(work, bytes);
  const params = { path: pathToFileURL(path).href };
  const expected = base64Of(readFileSync(path));
  const connection = await Connection.ready(url);
  await connection.receive('fs/readFile', params, fileAnswer(expected));
  // Comparing a large response costs more than receiving it, so only the first one is compared.
  const body = bytes > MB ? expected.length : expected;
  const step = () => connection.receive('fs/readFile', params, fileAnswer(body));
  return timed(step, quick ? QUICK_PACE : pace);
}

/**
 * How long each write to one file took. Two contents alternate, and the file is compared after each write, so that a response
 * without a write is noticed.
 */
async function writeFiles({ url, quick, work }, bytes, pace) {
  const connection = await Connection.ready(url);
  const path = join(work, 'written');
  const contents = [randomBytes(bytes), randomBytes(bytes)].map((content) => ({
    content,
    tail: tailOf(content),
  }));
  let turn = 0;
  const step = async () => {
    const { content, tail } = contents[turn++ % contents.length];
    const began = now();
    await writeFile(connection, path, tail);
    const took = now() - began;
    compareFile(path, content);
    return took;
  };
  try {
    return await timed(step, quick ? QUICK_PACE : pace);
  } finally {
    rmSync(path, { force: true });
  }
}

/** Whether the server accepts this size in one frame. The reference closes the connection instead. */
async function writeAtOnce({ url, work }, bytes) {
  const connection = await Connection.ready(url);
  const path = join(work, 'written');
  const content = randomBytes(bytes);
  try {
    const accepted = await writeFile(connection, path, tailOf(content)).then(
      () => true,
      () => false,
    );
    if (accepted) compareFile(path, content);
    return accepted;
  } finally {
    rmSync(path, { force: true });
  }
}

function compareFile(path, content) {
  if (!readFileSync(path).equals(content)) throw new Error('the file does not hold what was written');
}

const QUICK_PACE = { max: 3, seconds: 1 };

const tailOf = (content) => new MaskedTail(`${content.toString('base64')}"}}`);

async function writeFile(connection, path, tail) {
  const head = `{"path":${JSON.stringify(pathToFileURL(path).href)},"dataBase64":"`;
  const result = await connection.upload('fs/writeFile', head, tail);
  if (JSON.stringify(result) !== '{}') throw new Error(`unexpected result ${JSON.stringify(result)}`);
}
