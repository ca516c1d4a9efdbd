// The steps about HTTP: requests to the server under test, the web servers of a case, and the bodies that the server streams.
import http from 'node:http';
import { check, Failure } from './connection.mjs';
import { toBytes } from './payload.mjs';
import { Upstream } from './upstream.mjs';

const MAX_DELTA_BYTES = 1024 * 1024;

export async function httpRequest(context, step) {
  const { method = 'GET', path, headers = {} } = step.http;
  const { hostname, port } = new URL(context.url);
  const answer = await new Promise((resolve, reject) => {
    const outgoing = http.request({
      hostname,
      port,
      method,
      path,
      headers,
      agent: false,
      timeout: step.within,
    });
    outgoing.on('response', (incoming) => {
      const parts = [];
      incoming.on('data', (part) => parts.push(part));
      incoming.on('end', () => resolve({ incoming, body: Buffer.concat(parts).toString('utf8') }));
    });
    outgoing.on('upgrade', (incoming, socket) => {
      socket.destroy();
      resolve({ incoming, body: '' });
    });
    outgoing.on('timeout', () => outgoing.destroy(new Failure('no http response', step.status, null)));
    outgoing.on('error', reject);
    outgoing.end();
  });
  check(step.status, answer.incoming.statusCode, 'status');
  if (step.headers !== undefined)
    check({ $partial: step.headers }, { ...answer.incoming.headers }, 'headers');
  if (step.body !== undefined) check(step.body, answer.body, 'body');
}

export async function upstream(context, step) {
  const server = new Upstream(step.upstream);
  context.addUpstream(step.as ?? 'upstream', server);
  const port = await server.listen();
  const host = `127.0.0.1:${port}`;
  const name = step.as ?? 'upstream';
  Object.assign(context.variables, {
    [name]: `http://${host}`,
    [`${name}.host`]: host,
    [`${name}.port`]: port,
  });
}

export async function received(context, step) {
  const isNew = ({ taken }) => !taken;
  const request = await context.upstream(step.to).request(step.received, step.within, isNew);
  if (!request) throw new Failure(`no request to ${step.received}`, step.head ?? step.line, null);
  request.taken = true;
  if (step.line !== undefined) check(step.line, request.head.split('\r\n')[0], 'request line');
  if (step.head !== undefined) check(step.head, request.head, 'head of the request');
  if (step.body !== undefined) check(step.body, request.body, 'body of the request');
}

export async function upstreamSend(context, step) {
  const request = await lastRequest(context, step.to, step.upstreamSend, step.within);
  if (step.data !== undefined) request.socket.write(toBytes(step.data));
  if (step.end) request.socket.end();
}

export async function upstreamGone(context, step) {
  const request = await lastRequest(context, step.to, step.upstreamGone, step.within);
  const isGone = (other) => other === request && other.gone;
  if (!(await context.upstream(step.to).request(request.path, step.within, isGone))) {
    throw new Failure(`the connection for ${request.path} is still open`, 'closed', 'open');
  }
}

export async function upstreamConnections(context, step) {
  check(step.upstreamConnections, context.upstream(step.to).connections, 'connections to the web server');
}

export async function notReceived(context, step) {
  const came = context
    .upstream(step.to)
    .requests.filter(({ path, taken }) => path === step.notReceived && !taken);
  check(
    [],
    came.map(({ head }) => head),
    `requests to ${step.notReceived}`,
  );
}

async function lastRequest(context, to, path, within) {
  await context.upstream(to).request(path, within);
  const request = context.upstream(to).requests.findLast((each) => each.path === path);
  if (!request) throw new Failure(`no request to ${path}`, 'a request', null);
  return request;
}

export async function streamed(context, step) {
  const connection = context.connection(step.on);
  const pieces = [];
  for (let seq = 1; ; seq += 1) {
    const { message } = await connection.notification('http/request/bodyDelta', step.streamed, step.within);
    const { done, error, deltaBase64 } = message.params;
    check(
      {
        requestId: step.streamed,
        seq,
        deltaBase64: { $base64: { $bytes: { $any: true } } },
        ...END_OF_DELTA,
      },
      message.params,
      'piece of the body',
    );
    const bytes = Buffer.from(deltaBase64, 'base64');
    if (done) {
      check(0, bytes.length, 'bytes in the last piece');
      check(step.error ?? null, error, 'error of the body');
      break;
    }
    check({ $range: [1, MAX_DELTA_BYTES] }, bytes.length, 'bytes in a piece');
    check(null, error, 'error of a piece');
    pieces.push(bytes);
  }
  check(step.body ?? { $any: true }, Buffer.concat(pieces), 'body');
  check(step.deltas ?? { $any: true }, pieces.length, 'number of pieces');
}

const END_OF_DELTA = { done: { $type: 'boolean' }, error: { $any: true } };
