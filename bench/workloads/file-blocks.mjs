import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Connection } from '../wire/connection.mjs';
import { MaskedTail } from '../wire/frames.mjs';
import { cpuSeconds, peakResidentBytes } from '../wire/proc.mjs';
import { CLIENT_BUSY, clientShare } from './client-share.mjs';
import { base64Length, base64Of, blockAnswer } from './file-answers.mjs';
import { ratioAtLeast, ratioAtMost } from './goals.mjs';
import { concurrently, now } from './pace.mjs';
import { GB, MB } from './programs.mjs';
import { randomFile } from './work-files.mjs';

/** The largest block that both servers return. */
const BLOCK_BYTES = MB;

/** A client that copies a file keeps requests in flight while it processes responses. */
const IN_FLIGHT = 4;

/** How many different blocks are written in turn, so that a block at the wrong position is noticed. */
const WRITTEN_BLOCKS = 7;

const STREAMS = 4;

/** @type {import('./index.mjs').Row} */
const rate = { key: 'rate', label: 'rate', unit: 'MB/s', better: 'higher' };
/** @type {import('./index.mjs').Row} */
const cpu = { key: 'cpu', label: 'server CPU', unit: 's/GB', better: 'lower' };
/** @type {import('./index.mjs').Row} */
const peak = { key: 'peak', label: 'peak RSS', unit: 'MB', better: 'lower' };

/** @type {import('./index.mjs').Workload[]} */
export const fileBlocks = [
  {
    name: 'files-blocks-1gb',
    title: 'fs/readBlock over 1 GB',
    timeoutSeconds: 180,
    rows: [{ ...rate, goal: ratioAtLeast(2.5) }, { ...cpu, goal: ratioAtMost(0.5) }, peak, CLIENT_BUSY],
    run: (context) => readStreams(context, 1),
  },
  {
    name: 'files-blocks-4x256mb',
    title: 'fs/readBlock over 4 x 256 MB concurrently',
    timeoutSeconds: 180,
    rows: [rate, cpu, peak, CLIENT_BUSY],
    run: (context) => readStreams(context, STREAMS),
  },
  {
    name: 'files-blocks-write-256mb',
    title: 'fs/writeBlock of 256 MB',
    timeoutSeconds: 120,
    rows: [rate, cpu, peak],
    run: writeBlocks,
  },
];

/** Reads one file to its end, each part on its own connection. */
async function readStreams({ url, pid, quick, work }, count) {
  const bytes = quick ? 4 * MB : GB;
  const path = randomFile(work, bytes);
  const length = bytes / count;
  const readers = await Promise.all(
    Array.from({ length: count }, (_, i) => BlockReader.open(url, path, i * length, length)),
  );
  // The first pass compares the content and brings the file into the page cache.
  for (const reader of readers) await reader.compare();
  const measured = await measureBytes(pid, bytes, () => Promise.all(readers.map((reader) => reader.read())));
  for (const reader of readers) await reader.close();
  return measured;
}

class BlockReader {
  #connection;
  #path;
  #from;
  #blocks;

  static async open(url, path, from, length) {
    const reader = new BlockReader();
    reader.#connection = await Connection.ready(url);
    reader.#path = path;
    reader.#from = from;
    reader.#blocks = length / BLOCK_BYTES;
    await reader.#connection.call('fs/open', { handleId: HANDLE, path: pathToFileURL(path).href });
    return reader;
  }

  async compare() {
    const file = openSync(this.#path, 'r');
    try {
      const block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
      for (let i = 0; i < this.#blocks; i++) {
        readSync(file, block, 0, BLOCK_BYTES, this.#offset(i));
        await this.#readBlock(i, base64Of(block));
      }
    } finally {
      closeSync(file);
    }
  }

  read() {
    const body = base64Length(BLOCK_BYTES);
    return concurrently(this.#blocks, IN_FLIGHT, (i) => this.#readBlock(i, body));
  }

  close() {
    return this.#connection.call('fs/close', { handleId: HANDLE });
  }

  #readBlock(i, body) {
    const params = { handleId: HANDLE, offset: this.#offset(i), len: BLOCK_BYTES };
    return this.#connection.receive('fs/readBlock', params, blockAnswer(body));
  }

  #offset(i) {
    return this.#from + i * BLOCK_BYTES;
  }
}

async function writeBlocks({ url, pid, quick, work }) {
  const count = quick ? 4 : 256;
  const path = join(work, 'blocks');
  const blocks = Array.from({ length: WRITTEN_BLOCKS }, () => randomBytes(BLOCK_BYTES));
  const tails = blocks.map((block) => new MaskedTail(`${block.toString('base64')}"}}`));
  const connection = await Connection.ready(url);
  const write = async (i) => {
    const head = `{"handleId":"${HANDLE}","offset":${i * BLOCK_BYTES},"chunk":"`;
    const result = await connection.upload('fs/writeBlock', head, tails[i % WRITTEN_BLOCKS]);
    if (result === undefined) throw new Error(`block ${i} was not written`);
  };
  try {
    await connection.call('fs/open', { handleId: HANDLE, path: pathToFileURL(path).href, mode: 'replace' });
    const measured = await measureBytes(pid, count * BLOCK_BYTES, async () => {
      await concurrently(count, IN_FLIGHT, write);
      await connection.call('fs/close', { handleId: HANDLE });
    });
    compareBlocks(path, blocks, count);
    return measured;
  } finally {
    rmSync(path, { force: true });
  }
}

const HANDLE = 'bench';

function compareBlocks(path, blocks, count) {
  const { size } = statSync(path);
  if (size !== count * BLOCK_BYTES) throw new Error(`${size} bytes of ${count * BLOCK_BYTES} were written`);
  const found = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  const file = openSync(path, 'r');
  try {
    for (let i = 0; i < count; i++) {
      readSync(file, found, 0, BLOCK_BYTES, i * BLOCK_BYTES);
      if (!found.equals(blocks[i % blocks.length])) throw new Error(`block ${i} is not what was written`);
    }
  } finally {
    closeSync(file);
  }
}

/** The cost of moving that many bytes. */
async function measureBytes(pid, bytes, move) {
  const cpuBefore = cpuSeconds(pid);
  const share = clientShare();
  const began = now();
  await move();
  const seconds = (now() - began) / 1000;
  return {
    rate: bytes / MB / seconds,
    cpu: (cpuSeconds(pid) - cpuBefore) / (bytes / GB),
    peak: peakResidentBytes(pid) / MB,
    client: share(),
  };
}
