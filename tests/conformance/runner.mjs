// Runs cases against a server and reports what differs from the recording.
import { randomBytes } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Failure, StdioConnection } from './connection.mjs';
import { expand } from './payload.mjs';
import { handshake, STEPS } from './steps.mjs';

/** Some steps create or count thousands of files, which takes long on a busy machine. */
const STEP_DEADLINE_MS = 40_000;
const CLEANUP_DEADLINE_MS = 2_000;
const TRANSCRIPT_MESSAGES = 12;
/** A shell function that runs a command and prints it with `ok` or with the end of its error message. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the braces are the shell's.
const TRY = 'try() { if e=$("$@" 2>&1); then echo "$*: ok"; else echo "$*: ${e##*: }"; fi; };';

/**
 * Runs one case. Options: `url`; `server` (`reference` or `exec-server`); `launch(args)`, which starts a server for cases that need
 * their own; `facts`, the properties of the server; `deadlineMs` per step.
 */
export async function runCase(testCase, options) {
  const reason = whySkipped(testCase, options);
  if (reason) return { name: testCase.name, status: 'skipped', reason };
  const play = new Play(testCase, options);
  try {
    await play.run();
    return { name: testCase.name, status: 'passed' };
  } catch (error) {
    return {
      name: testCase.name,
      status: 'failed',
      failure: play.describe(error),
      transcript: play.transcript(),
    };
  } finally {
    await play.cleanUp();
    await removeFiles(play.variables.file);
    await removeFiles(play.variables.tree);
  }
}

/** Runs many cases: `parallel` at a time, and those marked `serial` one by one at the end. */
export async function runCases(cases, { parallel = 8, onResult = () => {}, ...options }) {
  const results = [];
  const record = async (testCase) => {
    const result = await runCase(testCase, options);
    results.push(result);
    onResult(result);
  };
  const slowFirst = cases.filter((testCase) => !testCase.serial).sort((a, b) => rank(a) - rank(b));
  const worker = async () => {
    for (let next = slowFirst.shift(); next; next = slowFirst.shift()) await record(next);
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  for (const testCase of cases.filter(({ serial }) => serial)) await record(testCase);
  return results;
}

/** A failure as one readable line. */
export function formatFailure({ name, failure }) {
  const { step, message, expected, actual } = failure;
  return `${name}: ${step}: ${message}: expected ${brief(expected)}, actual ${brief(actual)}`;
}

/** Why a case cannot run here, or undefined. */
function whySkipped(testCase, { server, launch, facts = {} }) {
  if (testCase.only && testCase.only !== server) return `only for ${testCase.only}`;
  if (testCase.server && !launch) return 'needs its own server, but only a url is given';
  const missing = (testCase.needs ?? []).find((need) => !facts[need]);
  return missing ? `the case needs ${missing}, which the server lacks` : undefined;
}

/** The step for this server: `onReference` or `onOurs` replaces the expectations that it names. */
export function stepFor(step, server) {
  const { onReference, onOurs, only, why, ...base } = step;
  if (only && only !== server) return undefined;
  const alternative = server === 'reference' ? onReference : onOurs;
  if (!alternative) return base;
  const replies = ['result', 'error', 'reply'];
  if (replies.some((key) => key in alternative)) for (const key of replies) delete base[key];
  return { ...base, ...alternative };
}

class Play {
  server = null;
  #lastId = 0;
  #position = 'set-up';
  #connections = new Map();
  /** Includes connections that were replaced under the same name. */
  #allConnections = new Set();
  #upstreams = new Map();

  constructor(testCase, options) {
    this.testCase = testCase;
    this.options = options;
    this.url = options.url;
    this.within = options.deadlineMs ?? STEP_DEADLINE_MS;
    const unique = `exec-server-conformance-${randomBytes(6).toString('hex')}`;
    this.variables = {
      case: testCase.name,
      file: `/tmp/${unique}`,
      tree: `/var/tmp/${unique}`,
      try: TRY,
    };
    Object.assign(this.variables, expand(testCase.variables ?? {}, this.variables));
  }

  async run() {
    const { server, connections = { main: 'ready' }, steps } = this.testCase;
    if (server) {
      this.server = await this.options.launch(server.args, server.home);
      this.variables.home = this.server.home;
      this.url = this.server.url;
    }
    for (const [name, state] of Object.entries(connections)) await this.#open(name, state);
    await this.runSteps(steps);
    this.#position = 'end';
    for (const { name, violations, unclaimed } of this.#leftovers()) {
      if (violations.length > 0) throw new Failure(`${name} broke a general rule`, [], violations);
      if (unclaimed.length > 0) throw new Failure(`${name} got unexpected replies`, [], unclaimed);
    }
  }

  async runSteps(steps) {
    for (const [index, raw] of steps.entries()) {
      const step = stepFor(raw, this.options.server);
      if (!step) continue;
      const verb = Object.keys(step).find((key) => Object.hasOwn(STEPS, key));
      this.#position = `step ${index + 1} (${verb} ${brief(step[verb], 60)})`;
      // The steps of a loop are expanded in each iteration.
      const expanded = verb === 'repeat' ? step : expand(step, this.variables);
      await STEPS[verb].run(this, { within: this.within, ...expanded });
    }
  }

  addConnection(connection) {
    this.#connections.set(connection.name, connection);
    this.#allConnections.add(connection);
  }

  connection(name = 'main') {
    const connection = this.#connections.get(name);
    if (!connection) throw new Error(`the case has no connection ${name}`);
    return connection;
  }

  addUpstream(name, upstream) {
    this.#upstreams.set(name, upstream);
  }

  upstream(name = 'upstream') {
    const upstream = this.#upstreams.get(name);
    if (!upstream) throw new Error(`the case has no web server ${name}`);
    return upstream;
  }

  nextId() {
    this.#lastId += 1;
    return this.#lastId;
  }

  describe(error) {
    const isExpectation = error instanceof Failure;
    const expected = isExpectation ? error.expected : null;
    const actual = isExpectation ? error.actual : (error.stack ?? String(error));
    return { step: this.#position, message: error.message, expected, actual };
  }

  /** The last messages of each connection. */
  transcript() {
    return [...this.#allConnections].flatMap(({ name, entries, end }) => [
      ...entries.slice(-TRANSCRIPT_MESSAGES).map(({ text }) => `${name} <- ${brief(text)}`),
      ...(end ? [`${name} ended ${JSON.stringify(end)}`] : []),
    ]);
  }

  /** Ends the programs that the case left running, so that the next case finds an idle server. */
  async cleanUp() {
    await Promise.all([...this.#allConnections].map((connection) => this.#cleanUpConnection(connection)));
    for (const upstream of this.#upstreams.values()) upstream.close();
    await this.server?.stop();
  }

  async #open(name, state) {
    if (this.server && this.url === null) {
      const connection = new StdioConnection(name, this.server.child);
      this.addConnection(connection);
      if (state === 'ready') await handshake(this, connection, undefined, this.within);
      return;
    }
    await STEPS.connect.run(this, { connect: name, state, within: this.within });
  }

  #leftovers() {
    return [...this.#allConnections].map((connection) => ({
      name: connection.name,
      violations: connection.violations,
      unclaimed: connection.unclaimed().map((entry) => entry.message),
    }));
  }

  async #cleanUpConnection(connection) {
    const alive = [...connection.started].filter((id) => connection.process(id).lastSeq === null);
    if (!connection.end && alive.length > 0 && !this.server) {
      connection.resume?.();
      const replies = alive.map((processId, index) => {
        const id = `cleanup-${index}`;
        connection.sendMessage({ id, method: 'process/terminate', params: { processId } });
        return connection.response(id, CLEANUP_DEADLINE_MS);
      });
      await Promise.allSettled(replies);
    }
    connection.drop();
  }
}

/**
 * Removes the files of a case. Files on another machine stay there. Other cases go on meanwhile: a tree of thousands of files takes long on
 * a busy disk, and a server does not wait forever for the request of a new connection.
 */
async function removeFiles(prefix) {
  const left = (await readdir(dirname(prefix))).filter((name) => name.startsWith(basename(prefix)));
  for (const name of left) await rm(join(dirname(prefix), name), { recursive: true, force: true });
}

function rank({ slow, server }) {
  return slow ? 0 : server ? 1 : 2;
}

function brief(value, limit = 300) {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, printable) ?? 'nothing');
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

function printable(_, value) {
  return value?.type === 'Buffer' ? Buffer.from(value.data).toString('utf8') : value;
}
