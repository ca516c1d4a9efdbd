const OUTPUT = '{"method":"process/output","params":{"processId":"';
const HEAD_BYTES = 256;
const QUOTE = 0x22;
const BRACE = 0x7d;
const PAD = 0x3d;

/**
 * Reads one message of a server. Output is most of what arrives, so its fields are taken from the bytes without parsing the
 * message; any message of another form goes through JSON.parse, with the same result.
 */
export function readMessage(bytes, start, end, processes, answer) {
  const head = bytes.latin1Slice(start, Math.min(end, start + HEAD_BYTES));
  if (head.startsWith('{"id":')) answer(head, bytes, start, end);
  else if (!(head.startsWith(OUTPUT) && readOutput(head, bytes, start, end, processes))) {
    readSlowly(bytes.utf8Slice(start, end), processes, answer);
  }
}

function readOutput(head, bytes, start, end, processes) {
  const idEnd = head.indexOf('"', OUTPUT.length);
  const process = processes.get(head.slice(OUTPUT.length, idEnd));
  const seqAt = idEnd + 8;
  const chunkAt = head.indexOf('"chunk":"', seqAt) + 9;
  if (process === undefined || !head.startsWith('","seq":', idEnd) || chunkAt === 8) return false;
  if (bytes[end - 1] !== BRACE || bytes[end - 2] !== BRACE || bytes[end - 3] !== QUOTE) return false;
  const from = start + chunkAt;
  const to = end - 3;
  const padding = bytes[to - 1] !== PAD ? 0 : bytes[to - 2] !== PAD ? 1 : 2;
  const size = ((to - from) / 4) * 3 - padding;
  const seq = Number.parseInt(head.slice(seqAt, seqAt + 16), 10);
  process.output(seq, size, process.wantsBytes ? decode(bytes, from, to) : null);
  return true;
}

function decode(bytes, from, to) {
  return Buffer.from(bytes.latin1Slice(from, to), 'base64');
}

function readSlowly(text, processes, answer) {
  const message = JSON.parse(text);
  if (message.method === undefined) {
    answer(text, null, 0, 0, message);
    return;
  }
  const { processId, seq } = message.params ?? {};
  const process = processes.get(processId);
  if (process === undefined) return;
  if (message.method === 'process/output') {
    const decoded = Buffer.from(message.params.chunk, 'base64');
    process.output(seq, decoded.length, decoded);
  } else if (message.method === 'process/exited') process.exited(seq, message.params.exitCode);
  else if (message.method === 'process/closed') process.ended(seq);
  else if (message.method === 'process/skipped')
    process.skipped(message.params.fromSeq, message.params.toSeq);
}
