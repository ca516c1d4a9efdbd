// The vocabulary of the cases. Each step has one verb; `options` lists what else it may carry.
import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { check, Failure, openWebSocket } from './connection.mjs';
import { mismatch } from './match.mjs';
import { toBytes, valueAt } from './payload.mjs';
import {
  httpRequest,
  notReceived,
  received,
  streamed,
  upstream,
  upstreamConnections,
  upstreamGone,
  upstreamSend,
} from './web-steps.mjs';

/** Members that any step may carry. */
export const COMMON_OPTIONS = ['on', 'within', 'only', 'onReference', 'onOurs', 'why'];

const REPLY_OPTIONS = ['result', 'error', 'reply', 'raw', 'save'];
const STREAMS = ['stdout', 'stderr', 'pty'];
const POLL_MS = 20;

/** Every verb. `asserts` marks those that can fail because of what the server does. */
export const STEPS = {
  /** Opens a connection: `state` open (no handshake) or ready (default); `resume` names the session to come back to. */
  connect: { options: ['state', 'resume', 'headers'], run: connect },
  /** Closes it properly and waits for the end; `code` is sent, `seen` is the close code that comes back. */
  close: { options: ['code', 'seen'], asserts: true, run: close },
  /** Cuts the TCP connection. */
  drop: { run: async (context, step) => context.connection(step.drop).drop() },
  /** Waits until the server has ended the connection. */
  closed: { options: ['code', 'reason'], asserts: true, run: closed },
  /** Sends a request and checks its answer. */
  request: { options: ['id', 'params', 'elapsedMs', ...REPLY_OPTIONS], asserts: true, run: request },
  /**
   * Starts a program; what is not given is /tmp, a plain PATH, pipes. `sh` is a script for /bin/sh. The answer must name the
   * sandbox that was asked for.
   */
  start: { options: ['sh', 'argv', 'params', 'result', 'error', 'reply'], asserts: true, run: start },
  /** Runs a script to its end and expects exit code 0. */
  shell: { options: ['stdout'], asserts: true, run: shell },
  /** Sends one JSON message and expects nothing by itself. */
  send: { run: async (context, step) => context.connection(step.on).sendMessage(step.send) },
  /** Sends several JSON messages in one packet. */
  together: { run: async (context, step) => context.connection(step.on).sendTogether(step.together) },
  /** Sends a payload as a text message, in `fragments` frames. */
  text: { options: ['fragments', 'mask'], run: sendPayload(false) },
  binary: { options: ['fragments'], run: sendPayload(true) },
  /** Whether the server has sent binary messages so far. */
  binaryMessages: { asserts: true, run: countBinary },
  ping: { asserts: true, run: ping },
  pong: { run: async (context, step) => context.connection(step.on).sendPong(step.pong) },
  /** Waits for a ping of the server. */
  pinged: { asserts: true, run: pinged },
  /** Stops and restarts reading from the socket. */
  pause: { run: async (context, step) => context.connection(step.pause).pause() },
  unpause: { run: async (context, step) => context.connection(step.unpause).resume() },
  /** The response with this id. */
  response: { options: REPLY_OPTIONS, asserts: true, run: response },
  /** The next message that is no notification, whatever its id. */
  message: { options: ['raw'], asserts: true, run: message },
  /** The next notification of this method about the process, http request, stream or watch `of`. */
  notification: { options: ['of', 'params', 'raw', 'save'], asserts: true, run: notification },
  /** No notification of this method has arrived but those that steps have taken. */
  noNotification: { asserts: true, run: noNotification },
  /**
   * Waits until the output so far (of one `stream`, or all) matches `text`. `cr: "strip"` ignores carriage
   * returns; `capture` saves the first group of a regular expression.
   */
  output: { options: ['stream', 'text', 'cr', 'from', 'capture'], asserts: true, run: output },
  /** Waits for the end of a process and checks all of it; a stream that is not named must be empty. */
  collect: {
    options: ['exitCode', 'sandboxDenied', 'order', 'maxChunk', 'chunks', 'from', ...STREAMS],
    asserts: true,
    run: collect,
  },
  /** No reply is waiting that no step has asked for. */
  quiet: { asserts: true, run: quiet },
  /** Nothing has been notified about this process, or not the event number `seq`. */
  noEvents: { options: ['seq'], asserts: true, run: noEvents },
  /** The responses with these ids arrived in this order. */
  arrived: { asserts: true, run: arrived },
  /** A plain HTTP request, upgrades included. */
  http: { options: ['status', 'headers', 'body'], asserts: true, run: httpRequest },
  /**
   * Starts a web server with these routes (see upstream.mjs) for the rest of the case. {{upstream}} is its address and
   * {{upstream.host}} the part behind the scheme, {{upstream.port}} its port; with `as` they have another name.
   */
  upstream: { options: ['as'], run: upstream },
  /** The next request that came to a path of a web server (`to` is its variable): `head` is its text, `line` its first line. */
  received: { options: ['to', 'line', 'head', 'body'], asserts: true, run: received },
  /** Sends more on the connection on which the last request to a path came; `end` closes it. */
  upstreamSend: { options: ['to', 'data', 'end'], run: upstreamSend },
  /** The connection on which the last request to a path came has been closed. */
  upstreamGone: { options: ['to'], asserts: true, run: upstreamGone },
  /** So many connections have been opened to a web server. */
  upstreamConnections: { options: ['to'], asserts: true, run: upstreamConnections },
  /** No request has come to a path but those that steps have taken. */
  notReceived: { options: ['to'], asserts: true, run: notReceived },
  /** Waits for the end of the streamed body of an http request and checks all of it. */
  streamed: { options: ['body', 'error', 'deltas'], asserts: true, run: streamed },
  /** Runs `steps` n times with {{i}} = 1…n; `as` is another name than i. */
  repeat: { options: ['steps', 'as'], run: repeat },
  /** For cases that start their own server. */
  signalServer: { run: async (context, step) => context.server.child.kill(step.signalServer) },
  serverExit: { asserts: true, run: serverExit },
  /** The process with this pid on this machine is gone. */
  pidGone: { asserts: true, run: pidGone },
};

async function connect(context, step) {
  const name = step.connect;
  const connection = await openWebSocket(name, context.url, step.headers);
  context.addConnection(connection);
  if (step.state !== 'open') await handshake(context, connection, step.resume, step.within);
}

/** A session whose old connection the server has not yet seen end is refused with -32010; that is retried. */
export async function handshake(context, connection, resume, within) {
  const params = { clientName: 'conformance', ...(resume === undefined ? {} : { resumeSessionId: resume }) };
  const deadline = performance.now() + within;
  for (;;) {
    const id = context.nextId();
    connection.sendMessage({ id, method: 'initialize', params });
    const { message: reply } = await connection.response(id, within);
    if (reply.error?.code === -32010 && performance.now() < deadline) continue;
    check({ id, result: { $partial: { sessionId: resume ?? { $uuid: true } } } }, reply, 'initialize');
    context.variables[`${connection.name}.session`] = reply.result.sessionId;
    connection.sendMessage({ method: 'initialized', params: {} });
    return;
  }
}

async function close(context, step) {
  const connection = context.connection(step.close);
  connection.close(step.code ?? 1000);
  await ended(connection, step.within);
  if (step.seen !== undefined) check(step.seen, connection.end.code, 'close code');
}

async function closed(context, step) {
  const connection = context.connection(step.closed);
  await ended(connection, step.within);
  check(step.code ?? { $any: true }, connection.end.code, 'close code');
  if (step.reason !== undefined) check(step.reason, connection.end.reason, 'close reason');
}

function ended(connection, within) {
  return connection.until(() => connection.end ?? undefined, within, 'end of the connection');
}

async function request(context, step) {
  const connection = context.connection(step.on);
  const id = step.id ?? context.nextId();
  const message = { id, method: step.request };
  if ('params' in step) message.params = step.params;
  const sentAt = performance.now();
  connection.sendMessage(message);
  const entry = await connection.response(id, step.within);
  const elapsed = performance.now() - sentAt;
  checkReply(context, step, entry, id);
  if (step.elapsedMs !== undefined) check(step.elapsedMs, elapsed, 'elapsed ms');
}

async function start(context, step) {
  const params = {
    processId: step.start,
    argv: step.argv ?? ['/bin/sh', '-c', step.sh],
    cwd: 'file:///tmp',
    env: { PATH: '/usr/bin:/bin' },
    tty: false,
    ...step.params,
  };
  const sandboxType = params.sandbox ? 'linuxSeccomp' : 'none';
  const expectation = ['error', 'reply'].some((key) => key in step)
    ? step
    : { ...step, result: step.result ?? { processId: step.start, sandboxType } };
  await request(context, { ...expectation, request: 'process/start', params });
}

async function shell(context, step) {
  const processId = `shell-${context.nextId()}`;
  await start(context, { start: processId, sh: step.shell, on: step.on, within: step.within });
  await collect(context, { ...step, collect: processId, exitCode: 0 });
}

function sendPayload(binary) {
  return async (context, step) => {
    const bytes = toBytes(binary ? step.binary : step.text);
    const options = { binary, ...('mask' in step ? { mask: step.mask } : {}) };
    context.connection(step.on).sendBytes(bytes, { ...options, fragments: step.fragments ?? 1 });
  };
}

async function countBinary(context, step) {
  check(step.binaryMessages, context.connection(step.on).binaryMessages > 0, 'binary messages were sent');
}

async function ping(context, step) {
  const connection = context.connection(step.on);
  connection.sendPing(step.ping);
  const isBack = () => (connection.pongs.includes(step.ping) ? true : undefined);
  await connection.until(isBack, step.within, `pong ${step.ping}`);
}

async function pinged(context, step) {
  const connection = context.connection(step.pinged);
  await connection.until(() => connection.pings, step.within, 'ping of the server');
}

async function response(context, step) {
  const entry = await context.connection(step.on).response(step.response, step.within);
  checkReply(context, step, entry, step.response);
}

async function message(context, step) {
  const entry = await context.connection(step.on).nextReply(step.within);
  check(step.message, entry.message, 'message');
  if (step.raw !== undefined) check(step.raw, entry.text, 'text of the message');
}

async function notification(context, step) {
  const entry = await context.connection(step.on).notification(step.notification, step.of, step.within);
  if (step.params !== undefined) check(step.params, entry.message.params, 'params');
  if (step.raw !== undefined) check(step.raw, entry.text, 'text of the message');
  save(context, step, entry.message);
}

async function noNotification(context, step) {
  const { entries } = context.connection(step.on);
  const waiting = entries.filter(({ taken, message }) => !taken && message.method === step.noNotification);
  check(
    [],
    waiting.map((entry) => entry.message),
    `notifications ${step.noNotification}`,
  );
}

async function output(context, step) {
  const connection = context.connection(step.on);
  const log = connection.process(step.output);
  let last = '';
  const isThere = () => {
    const bytes = log
      .contiguous(step.from)
      .filter(({ kind, stream }) => kind === 'o' && (step.stream ?? stream) === stream)
      .map((event) => event.bytes);
    last = Buffer.concat(bytes).toString('utf8');
    if (step.cr === 'strip') last = last.replaceAll('\r', '');
    return mismatch(step.text, last) === undefined ? true : undefined;
  };
  try {
    await connection.until(isThere, step.within, 'output');
  } catch (error) {
    throw new Failure(`output of ${step.output}: ${error.message}`, step.text, last);
  }
  for (const [name, source] of Object.entries(step.capture ?? {})) {
    const found = new RegExp(source, 'u').exec(last);
    if (!found) throw new Failure(`no ${name} in the output`, source, last);
    context.variables[name] = found[1];
  }
}

async function collect(context, step) {
  const connection = context.connection(step.on);
  const log = connection.process(step.collect);
  const isComplete = () => log.complete(step.from);
  let events;
  try {
    events = await connection.until(isComplete, step.within, `complete events of ${step.collect}`);
  } catch (error) {
    const seqs = [...log.events.values()].map(({ kind, seq }) => `${kind}${seq}`).slice(-20);
    throw new Failure(error.message, 'events without a gap up to closed', seqs.join(' '));
  }
  const outputs = events.filter(({ kind }) => kind === 'o');
  const exits = events.filter(({ kind }) => kind === 'e');
  check(1, exits.length, 'number of exited events');
  check(step.exitCode ?? { $any: true }, exits[0].exitCode, 'exitCode');
  if (step.sandboxDenied !== undefined) check(step.sandboxDenied, exits[0].sandboxDenied, 'sandboxDenied');
  for (const name of STREAMS) {
    const chunks = outputs.filter(({ stream }) => stream === name).map(({ bytes }) => bytes);
    check(step[name] ?? '', Buffer.concat(chunks), name);
  }
  const order = events.map(({ kind }) => kind).join('');
  check(step.order ?? { $any: true }, order.replace(/o+/g, 'o'), 'order of events');
  check(step.chunks ?? { $any: true }, outputs.length, 'number of chunks');
  const largest = Math.max(0, ...outputs.map(({ bytes }) => bytes.length));
  if (step.maxChunk !== undefined) check({ $range: [1, step.maxChunk] }, largest, 'largest chunk');
}

async function quiet(context, step) {
  const waiting = context.connection(step.quiet).unclaimed();
  check(
    [],
    waiting.map((entry) => entry.message),
    'unexpected replies',
  );
}

async function noEvents(context, step) {
  const seqs = [...context.connection(step.on).process(step.noEvents).events.keys()];
  const unwanted = step.seq === undefined ? seqs : seqs.filter((seq) => seq === step.seq);
  check([], unwanted, `events of ${step.noEvents}`);
}

async function arrived(context, step) {
  const ids = context
    .connection(step.on)
    .entries.filter(({ message }) => message.method === undefined && step.arrived.includes(message.id))
    .map(({ message }) => message.id);
  check(step.arrived, ids, 'order of the responses');
}

async function repeat(context, step) {
  for (let index = 1; index <= step.repeat; index += 1) {
    context.variables[step.as ?? 'i'] = String(index);
    await context.runSteps(step.steps);
  }
}

async function serverExit(context, step) {
  const tooLate = setTimeout(step.within, { still: 'running' }, { ref: false });
  check(step.serverExit, await Promise.race([context.server.exited, tooLate]), 'exit of the server');
}

async function pidGone(_, step) {
  const deadline = performance.now() + step.within;
  while (isAlive(Number(step.pidGone))) {
    if (performance.now() > deadline)
      throw new Failure(`pid ${step.pidGone} is still alive`, 'gone', 'alive');
    await setTimeout(POLL_MS);
  }
}

function isAlive(pid) {
  try {
    // A zombie that is never reaped counts as exited.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

function checkReply(context, step, entry, id) {
  const error = (pattern) =>
    typeof pattern === 'number' ? { code: pattern, message: { $type: 'string' } } : pattern;
  if ('result' in step) check({ id, result: step.result }, entry.message, 'reply');
  if ('error' in step) check({ error: error(step.error), id }, entry.message, 'reply');
  if ('reply' in step) check(step.reply, entry.message, 'reply');
  if ('raw' in step) check(step.raw, entry.text, 'text of the reply');
  save(context, step, entry.message);
}

function save(context, step, source) {
  for (const [name, path] of Object.entries(step.save ?? {})) {
    const value = valueAt(source, path);
    if (value === undefined) throw new Failure(`nothing to save at ${path}`, path, source);
    context.variables[name] = value;
  }
}
