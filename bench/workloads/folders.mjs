import { pathToFileURL } from 'node:url';
import { Connection } from '../wire/connection.mjs';
import { ratioAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { now, sleep, timed } from './pace.mjs';
import { ENTRY_BYTES, entryName, isFolder, tree, treeEntries, wideFolder } from './work-files.mjs';

const WALK_OPTIONS = {
  maxDepth: 64,
  maxDirectories: 10_000,
  maxEntries: 50_000,
  followDirectorySymlinks: false,
};

const IN_FLIGHT = 64;
const AT_ONCE_DEADLINE_MS = 3_000;
const POLL_MS = 20;

/** @type {import('./index.mjs').Workload[]} */
export const folders = [
  {
    name: 'files-directory-10k',
    title: 'fs/readDirectory of 10,000 entries',
    rows: latencyRows('ms', { p50: ratioAtMost(0.6) }),
    async run({ url, quick, work }) {
      const count = quick ? 100 : 10_000;
      const params = { path: pathToFileURL(wideFolder(work, count)).href };
      const connection = await Connection.ready(url);
      const samples = await timedAnswers(connection, 'fs/readDirectory', params, quick, (result) =>
        checkEntries(result, count),
      );
      return latency(samples, 'ms');
    },
  },
  {
    name: 'files-walk-31k',
    title: 'fs/walk over 31,000 entries',
    rows: latencyRows('ms', { p50: ratioAtMost(0.25) }),
    async run({ url, quick, work }) {
      const size = quick ? [10, 5] : [1_000, 30];
      const params = { path: pathToFileURL(tree(work, size[0], size[1])).href, options: WALK_OPTIONS };
      const expected = treeEntries(size[0], size[1]);
      const connection = await Connection.ready(url);
      const samples = await timedAnswers(connection, 'fs/walk', params, quick, (result) =>
        checkWalk(result, expected, params.path),
      );
      return latency(samples, 'ms');
    },
  },
  {
    name: 'files-metadata-1000',
    title: '1,000 x fs/getMetadata',
    rows: [
      ...latencyRows('ms', { label: '64 in flight, all answered', p50: ratioAtMost(0.8) }),
      { key: 'oneWrite', label: 'answered, sent in one write', unit: 'count', better: 'higher' },
    ],
    async run({ url, quick, work }) {
      const count = quick ? 100 : 10_000;
      const indexes = Array.from({ length: quick ? 20 : 1_000 }, (_, i) => (i * 7) % count);
      const folder = pathToFileURL(wideFolder(work, count)).href;
      const queries = await MetadataQueries.open(url, folder, indexes);
      const samples = await timed(() => queries.run(IN_FLIGHT), paceOf(quick));
      return { ...latency(samples, 'ms'), oneWrite: await queries.answeredAtOnce() };
    },
  },
];

const paceOf = (quick) => (quick ? { max: 2, seconds: 1 } : { warmUp: 5, min: 10, max: 100, seconds: 5 });

/** Milliseconds until each response arrived, without parsing it. */
function timedAnswers(connection, method, params, quick, check) {
  const step = async () => {
    const began = now();
    const text = await answerTo(connection, method, params);
    const took = now() - began;
    check(JSON.parse(text).result);
    return took;
  };
  return timed(step, paceOf(quick));
}

function answerTo(connection, method, params) {
  return new Promise((resolve, reject) => {
    connection.ask(method, params, (error, text) => (error ? reject(error) : resolve(text)));
  });
}

function checkEntries({ entries = [] }, count) {
  if (entries.length !== count) throw new Error(`${entries.length} entries of ${count}`);
  const sorted = entries.sort((a, b) => (a.fileName < b.fileName ? -1 : 1));
  sorted.forEach(({ fileName, isDirectory, isFile }, i) => {
    const right = fileName === entryName(i) && isDirectory === isFolder(i) && isFile !== isDirectory;
    if (!right) throw new Error(`entry ${i} is ${fileName}, folder ${isDirectory}, file ${isFile}`);
  });
}

function checkWalk({ entries = [], errors = [], truncated }, expected, root) {
  if (truncated) throw new Error(`the walk of ${root} was cut short; a shorter --work may help`);
  if (errors.length > 0) throw new Error(`walk: ${errors[0].path}: ${errors[0].message}`);
  if (entries.length !== expected.length) throw new Error(`${entries.length} of ${expected.length} entries`);
  entries.forEach(({ path, kind }, i) => {
    const right = path.endsWith(expected[i].name) && kind === expected[i].kind;
    if (!right) throw new Error(`entry ${i} of the walk is ${kind} ${path}`);
  });
}

/** Repeats the same requests on one connection. Responses may arrive in any order. */
class MetadataQueries {
  #connection;
  #folder;
  #indexes;

  static async open(url, folder, indexes) {
    const queries = new MetadataQueries();
    queries.#connection = await Connection.ready(url);
    queries.#folder = folder;
    queries.#indexes = indexes;
    return queries;
  }

  /** Returns how long it took until every response arrived, with `inFlight` concurrent requests. Then checks the responses. */
  async run(inFlight) {
    const texts = [];
    const began = now();
    await /** @type {Promise<void>} */ (
      new Promise((resolve, reject) => {
        let sent = 0;
        let answered = 0;
        const next = () => {
          if (sent === this.#indexes.length) return;
          const i = sent++;
          this.#ask(i, (error, text) => {
            if (error !== null) return reject(error);
            texts[i] = text;
            if (++answered === this.#indexes.length) resolve();
            else next();
          });
        };
        this.#connection.batch(() => {
          for (let i = 0; i < inFlight; i++) next();
        });
      })
    );
    const took = now() - began;
    this.#indexes.forEach((index, i) => {
      checkMetadata(JSON.parse(texts[i]).result, index);
    });
    return took;
  }

  /** Sends all requests in one write and counts the responses: the reference stops answering, and the row shows it. */
  async answeredAtOnce() {
    let answered = 0;
    this.#connection.batch(() => {
      for (let i = 0; i < this.#indexes.length; i++) {
        this.#ask(i, (error) => {
          if (error === null) answered++;
        });
      }
    });
    const began = now();
    while (answered < this.#indexes.length && now() - began < AT_ONCE_DEADLINE_MS) await sleep(POLL_MS);
    return answered;
  }

  #ask(i, done) {
    const path = `${this.#folder}/${entryName(this.#indexes[i])}`;
    this.#connection.ask('fs/getMetadata', { path }, done);
  }
}

function checkMetadata({ isDirectory, isFile, isSymlink, size }, index) {
  const folder = isFolder(index);
  const right =
    isDirectory === folder && isFile === !folder && !isSymlink && (folder || size === ENTRY_BYTES);
  if (!right) throw new Error(`wrong metadata of ${entryName(index)}`);
}
