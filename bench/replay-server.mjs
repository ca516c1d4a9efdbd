// A server that only sends: responses are constants, and output is copied from one pre-built frame. Its rate is the highest that the
// client can receive from any server on this machine.
//
//   node bench/replay-server.mjs CHUNK_BYTES
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

const CHUNK_BYTES = Number(process.argv[2] ?? 65_536);
const BATCH_BYTES = 512 * 1024;

const http = createServer();
const websockets = new WebSocketServer({ server: http, perMessageDeflate: false, clientTracking: false });
websockets.on('connection', (ws, request) => {
  request.socket.setNoDelay(true);
  ws.on('message', (data) => answer(ws, request.socket, JSON.parse(data.toString())));
  ws.on('error', () => ws.terminate());
});
http.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (http.address());
  process.stdout.write(`ws://127.0.0.1:${port}\n`);
});
process.once('SIGTERM', () => process.exit(0));

function answer(ws, socket, { id, method, params }) {
  if (id === undefined) return;
  const result =
    method === 'initialize' ? '{"sessionId":"replay"}' : method === 'environment/status' ? STATUS : '{}';
  ws.send(`{"id":${id},"result":${result}}`);
  if (method === 'process/start') void replay(ws, socket, params);
}

const STATUS = '{"status":"ready"}';

/** Sends what `head -c N` would print. Uses two buffers in turn: one is filled while the other is sent. */
async function replay(ws, socket, { processId, argv }) {
  const total = Number(argv[2]);
  const buffers = [0, 1].map(() => ({ bytes: Buffer.allocUnsafeSlow(BATCH_BYTES), sent: Promise.resolve() }));
  let seq = 1;
  for (let sent = 0, turn = 0; sent < total; turn++) {
    const buffer = buffers[turn % 2];
    await buffer.sent;
    let size = 0;
    while (sent < total) {
      const bytes = Math.min(CHUNK_BYTES, total - sent);
      const { frame, seqAt } = outputFrame(processId, seq, bytes);
      if (size + frame.length > BATCH_BYTES) break;
      frame.copy(buffer.bytes, size);
      buffer.bytes.write(String(seq), size + seqAt, 'latin1');
      size += frame.length;
      sent += bytes;
      seq++;
    }
    buffer.sent = new Promise((resolve) => socket.write(buffer.bytes.subarray(0, size), resolve));
  }
  await Promise.all(buffers.map((buffer) => buffer.sent));
  notify(ws, 'process/exited', { processId, seq: seq++, exitCode: 0, sandboxDenied: false });
  notify(ws, 'process/closed', { processId, seq });
}

function notify(ws, method, params) {
  ws.send(JSON.stringify({ method, params }));
}

const frames = new Map();

/** The frame of a size is built once per number of digits in its seq; the digits themselves are written each time. */
function outputFrame(processId, seq, bytes) {
  const digits = String(seq);
  const key = `${processId} ${bytes} ${digits.length}`;
  const known = frames.get(key);
  if (known !== undefined) return known;
  const head = `{"method":"process/output","params":{"processId":"${processId}","seq":`;
  const payload = `${head}${digits},"stream":"stdout","chunk":"${Buffer.alloc(bytes).toString('base64')}"}}`;
  const header = Buffer.alloc(payload.length < 65_536 ? 4 : 10);
  header[0] = 0x81;
  header[1] = header.length === 4 ? 126 : 127;
  if (header.length === 4) header.writeUInt16BE(payload.length, 2);
  else header.writeBigUInt64BE(BigInt(payload.length), 2);
  const built = { frame: Buffer.concat([header, Buffer.from(payload)]), seqAt: header.length + head.length };
  frames.set(key, built);
  return built;
}
