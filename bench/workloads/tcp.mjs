import { pathToFileURL } from 'node:url';
import { ours } from '../harness/servers.mjs';
import { median } from '../harness/statistics.mjs';
import { cpuSeconds } from '../wire/proc.mjs';
import { CLIENT_BUSY, clientShare } from './client-share.mjs';
import { valueAtLeast, valueAtMost } from './goals.mjs';
import { latency, latencyRows } from './latency.mjs';
import { concurrently, now, timed } from './pace.mjs';
import { GB, MB } from './programs.mjs';
import { randomFile } from './work-files.mjs';

const IN_FLIGHT = 4;

/** Listens on a loopback port and prints it. `send` sends that many bytes, `take` counts what it gets, `echo` sends it back. */
const PEER = `
  const [mode, count] = process.argv.slice(1);
  const block = Buffer.alloc(1 << 20);
  const server = require('net').createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    if (mode === 'echo') return socket.pipe(socket);
    if (mode === 'take') {
      let taken = 0;
      return socket.on('data', ({ length }) => { taken += length; }).on('end', () => socket.end(String(taken)));
    }
    let left = Number(count);
    const send = () => {
      while (left > 0) {
        const size = Math.min(left, block.length);
        left -= size;
        if (!socket.write(block.subarray(0, size)) && left > 0) return socket.once('drain', send);
      }
      socket.end();
    };
    send();
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));`;

/** @type {import('./index.mjs').Workload[]} */
export const tcp = [
  {
    name: 'tcp-stream',
    title: '256 MB through a TCP stream',
    rows: [
      { key: 'rate', label: 'from the peer', unit: 'MB/s', better: 'higher' },
      { key: 'upload', label: 'to the peer', unit: 'MB/s', better: 'higher' },
      { key: 'blocks', label: 'fs/readBlock', unit: 'MB/s', better: 'higher' },
      {
        key: 'share',
        label: 'of the rate of fs/readBlock',
        unit: 'x',
        better: 'higher',
        goal: valueAtLeast(0.5),
      },
      { key: 'cpu', label: 'server CPU', unit: 's/GB', better: 'lower' },
      CLIENT_BUSY,
    ],
    against: 'nothing',
    timeoutSeconds: 120,
    run: (context) => withClient(context, measureStream),
  },
  {
    name: 'tcp-echo',
    title: 'one byte through a TCP stream and back',
    rows: [
      ...latencyRows('ms', { label: 'echo' }),
      { key: 'pipe', label: 'p50 of cat on pipes', unit: 'ms', better: 'lower' },
      {
        key: 'share',
        label: 'of the p50 of cat',
        unit: 'x',
        better: 'lower',
        goal: valueAtMost(1.5),
      },
    ],
    against: 'nothing',
    run: (context) => withClient(context, measureEcho),
  },
];

async function withClient(context, measure) {
  const { ExecServerClient } = await ours('client/index.js');
  const client = await ExecServerClient.connect({ url: context.url });
  try {
    return await measure(client, context);
  } finally {
    await client.close();
  }
}

async function measureStream(client, { pid, quick, work }) {
  const bytes = (quick ? 4 : 256) * MB;
  const path = pathToFileURL(randomFile(work, bytes)).href;
  const ports = { warm: await peer(client, 'send', 8 * MB), send: await peer(client, 'send', bytes) };
  await download(await client.connectTcp({ port: ports.warm }), 8 * MB);
  await readBlocks(client, path, (quick ? 4 : 8) * MB);
  const blocks = await readBlocks(client, path, bytes);
  const before = cpuSeconds(pid);
  const busy = clientShare();
  const rate = await download(await client.connectTcp({ port: ports.send }), bytes);
  const measured = { rate, cpu: (cpuSeconds(pid) - before) / (bytes / GB), client: busy() };
  const upload = await uploadTo(await client.connectTcp({ port: await peer(client, 'take') }), bytes);
  return { ...measured, upload, blocks, share: rate / blocks };
}

/** Megabytes per second of reading a file, with as many requests in flight as in `files-blocks-1gb`. */
async function readBlocks(client, path, bytes) {
  await client.call('fs/open', { handleId: 'file', path });
  const began = now();
  await concurrently(bytes / MB, IN_FLIGHT, async (i) => {
    const { chunk } = await client.call('fs/readBlock', { handleId: 'file', offset: i * MB, len: MB });
    if (Buffer.from(chunk, 'base64').length !== MB) throw new Error(`block ${i} is not complete`);
  });
  const seconds = (now() - began) / 1000;
  await client.call('fs/close', { handleId: 'file' });
  return bytes / MB / seconds;
}

/** Megabytes per second, to the last byte. */
async function download(chunks, bytes) {
  const began = now();
  let arrived = 0;
  for await (const { length } of chunks) arrived += length;
  if (arrived !== bytes) throw new Error(`${arrived} bytes of ${bytes} arrived`);
  return bytes / MB / ((now() - began) / 1000);
}

async function uploadTo(socket, bytes) {
  const block = Buffer.alloc(MB);
  const began = now();
  for (let sent = 0; sent < bytes; sent += block.length) {
    if (!socket.write(block)) await new Promise((resolve) => socket.once('drain', resolve));
  }
  socket.end();
  let taken = '';
  for await (const chunk of socket) taken += chunk;
  if (Number(taken) !== bytes) throw new Error(`the peer got ${taken} bytes of ${bytes}`);
  return bytes / MB / ((now() - began) / 1000);
}

async function measureEcho(client, { quick }) {
  const socket = await client.connectTcp({ port: await peer(client, 'echo') });
  const program = await client.backend.start({ ...params('cat', ['cat']), pipeStdin: true });
  const events = program.events();
  const throughPipe = async () => {
    void program.write('x');
    const { value } = await events.next();
    if (value?.type !== 'output' || value.bytes.length !== 1) throw new Error('a byte was not echoed');
  };
  const throughTcp = () =>
    new Promise((resolve, reject) => {
      socket.once('data', ({ length }) => (length === 1 ? resolve() : reject(new Error('not one byte'))));
      socket.write('x');
    });
  const pace = { warmUp: quick ? 1 : 200, min: quick ? 5 : 100, max: quick ? 5 : 2_000, seconds: 4 };
  const pipe = median(await timed(throughPipe, pace));
  const measured = latency(await timed(throughTcp, pace), 'ms');
  socket.destroy();
  return { ...measured, pipe, share: measured.p50 / pipe };
}

let peers = 0;

/** Starts a peer as a program of the server and returns its port. */
async function peer(client, mode, count = 0) {
  const argv = [process.execPath, '-e', PEER, mode, String(count)];
  const program = await client.backend.start(params(`peer-${++peers}`, argv));
  for await (const event of program.events()) {
    if (event.type !== 'output') throw new Error(`the peer has ${event.type}`);
    return Number(Buffer.from(event.bytes).toString());
  }
  throw new Error('the peer printed nothing');
}

function params(processId, argv) {
  return { processId, argv, cwd: 'file:///', env: { PATH: process.env.PATH }, tty: false };
}
