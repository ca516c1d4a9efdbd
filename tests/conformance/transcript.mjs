// Example sessions of the user documents, kept as they were written (tests/golden/*.jsonl), turned into cases.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The first line of a file describes it. Each other line is `{"client": message}` or `{"server": message}` as in the document,
 * with `actual` = members that a real server must fill differently, `why`, `only`, `onReference`.
 * A server's answer may have more members than the document shows; terminal output is compared without carriage returns
 * and may have the echo of the input in between.
 */
export function loadTranscripts(folder) {
  const files = readdirSync(folder).filter((file) => file.endsWith('.jsonl'));
  return files.sort().map((file) => toCase(readFileSync(join(folder, file), 'utf8')));
}

function toCase(text) {
  const [head, ...lines] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const shown = new Map();
  return {
    area: 'golden',
    connections: { main: 'open' },
    ...head,
    steps: lines.map((line) => toStep(line, shown)),
  };
}

function toStep({ client, server, actual = {}, ...rest }, shown) {
  if (client) return { send: client, ...rest };
  if ('id' in server)
    return { response: server.id, result: { $partial: { ...server.result, ...actual } }, ...rest };
  const params = { ...server.params, ...actual };
  const { processId, stream, chunk } = params;
  if (chunk === undefined)
    return { notification: server.method, of: processId, params: { $partial: params }, ...rest };
  const parts = [...(shown.get(processId) ?? []), Buffer.from(chunk, 'base64').toString('utf8')];
  shown.set(processId, parts);
  return { output: processId, stream, cr: 'strip', text: { $sequence: parts }, ...rest };
}
