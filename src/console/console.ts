import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { FailureDelay } from '../listener/failure-delay.ts';
import { handshakeError } from '../listener/http-response.ts';
import { refusalDelay } from '../listener/refusal-delay.ts';
import { addressOf } from '../listener/web-server.ts';
import type { Logger } from '../observability/log.ts';
import type { Transport } from '../transport/transport.ts';
import type { WebSocketUpgrader } from '../transport/websocket.ts';
import { type Answer, answerJson, endWithAnswer, fail, sendAnswer } from './answers.ts';
import { type ConsoleSession, ConsoleSessions, isKey, type SessionEnd } from './console-sessions.ts';
import {
  CODE_TTL_MS,
  MAX_CODES,
  MAX_SOCKETS_PER_SESSION,
  MAX_TICKETS,
  MAX_TICKETS_PER_SESSION,
  REFUSAL_LOG_MS,
  TICKET_TTL_MS,
} from './limits.ts';
import { OneTimeSecrets } from './one-time-secrets.ts';
import { type OwnOrigin, ownOrigin } from './own-origin.ts';
import { PageAnswers } from './page-answers.ts';
import { CONSOLE_PATH } from './paths.ts';
import {
  BAD_CODE,
  BAD_TICKET,
  BODY_PROBLEMS,
  ENDED,
  FOREIGN_ORIGIN,
  NOT_FOUND,
  SESSION_PROBLEMS,
  UNKNOWN_ENVIRONMENT,
} from './refusals.ts';
import { readBody } from './request-body.ts';
import { cookiesOf, sessionCookie } from './session-cookie.ts';

/** Rights as the page shows them. */
interface ConsoleScopes {
  readonly exec: boolean;
  readonly observe: boolean;
  /** Whether processes can be seen: those of the same owner, or all. */
  readonly processes: boolean;
  readonly files: 'none' | 'read' | 'write';
  readonly net: boolean;
  readonly metrics: boolean;
  /** The directory to which files are limited; null for all files. */
  readonly below: string | null;
}

/** An environment that the page offers. */
interface ConsoleEnvironment {
  readonly name: string;
  /** A short name for people. */
  readonly label: string;
  /** Where it is, for people. */
  readonly address: string;
  /** Where commands begin: `~` for the home directory there, null for the directory of the server. */
  readonly directory: string | null;
  readonly default: boolean;
}

/** A connection to an environment that waits for the websocket of the page. */
export interface ConsoleLink {
  /** Serves the websocket. Resolves when it is closed. */
  serve(transport: Transport, address: string | null): Promise<unknown>;
  /** The page did not open its websocket. */
  close(): void;
}

/** What a console is for. `Grant` is what a sign-in code allows. */
export interface ConsoleOptions<Grant> {
  readonly version: string;
  /** Whether the listener has TLS. */
  readonly tls: boolean;
  /** The folder of the built page. */
  readonly pageFolder: string;
  readonly log: Logger;
  readonly environments: readonly ConsoleEnvironment[];
  scopesOf(grant: Grant): ConsoleScopes;
  isReadOnly(grant: Grant): boolean;
  /** Whose grant it is. Owners do not take each other's places. */
  ownerOf(grant: Grant): string;
  /** When the grant ends, in milliseconds since 1970; null when it does not. */
  expiryOf(grant: Grant): number | null;
  /** Whether the grant has not been withdrawn. */
  isGranted(grant: Grant): boolean;
  /** Connects to an environment of {@link environments}. Rejects with an error for the page. */
  connect(grant: Grant, environment: string): Promise<ConsoleLink>;
  /** Facts about the machine of an environment; null where they are not known. */
  machine(grant: Grant, environment: string): Promise<object | null>;
  /**
   * Authenticates a client, other than a browser, that asks for a code. Null where codes are not given to clients. The request has no
   * Origin.
   */
  readonly authorize: ((request: IncomingMessage, readOnly: boolean) => Promise<Grant | Answer>) | null;
  /** Called for each browser that is refused. */
  rejected?(status: number, reason: string, address: string | null): void;
}

/** How the listener turns a request into a websocket. */
interface Upgrade {
  /** The host that the request is for. */
  readonly host: string | undefined;
  /** Why there can be no further websocket; null when there can. */
  readonly unavailable: string | null;
  readonly upgrader: Pick<WebSocketUpgrader, 'upgrade'>;
  /** Counts the connection as a websocket. */
  admit(): void;
}

interface Ticket<Grant> {
  readonly session: ConsoleSession<Grant>;
  readonly link: ConsoleLink;
}

/** The subprotocol of the page's websockets. The ticket is a second one, because a page cannot set headers. */
const SUBPROTOCOL = 'exec-server';
const TICKET_PREFIX = 'ticket.';

/**
 * The web console: its page, the sessions of browsers, and their websockets. A one-time code signs a browser in. Each websocket needs a
 * one-time ticket. The caller has checked the Host of each request.
 */
export class Console<Grant> {
  readonly #options: ConsoleOptions<Grant>;
  readonly #page: PageAnswers;
  readonly #codes = new OneTimeSecrets<Grant>({
    ttlMs: CODE_TTL_MS,
    max: MAX_CODES,
    ownerOf: (grant) => this.#options.ownerOf(grant),
  });
  readonly #tickets = new OneTimeSecrets<Ticket<Grant>>({
    ttlMs: TICKET_TTL_MS,
    max: MAX_TICKETS,
    ownerOf: ({ session }) => this.#options.ownerOf(session.grant),
    unused: ({ session, link }) => {
      this.#release(session);
      link.close();
    },
  });
  readonly #sessions: ConsoleSessions<Grant>;
  /** Tickets of each session that are being prepared or wait. */
  readonly #waiting = new Map<ConsoleSession<Grant>, number>();
  readonly #delay = new FailureDelay();
  /** Wrong codes since the last line in the log, and the time of that line. */
  #refusals = 0;
  #refusalLoggedMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(
    options: ConsoleOptions<Grant>,
    times: ConstructorParameters<typeof ConsoleSessions<Grant>>[1] = {},
  ) {
    this.#options = options;
    this.#page = new PageAnswers(options.pageFolder, options.authorize === null ? 'command' : 'server');
    const ended = (session: ConsoleSession<Grant>) => {
      this.#tickets.revoke((ticket) => ticket.session === session);
      this.#waiting.delete(session);
    };
    this.#sessions = new ConsoleSessions({ ...options, ended }, times);
  }

  /** Creates a code that signs one browser in. */
  issueCode(grant: Grant): string {
    return this.#codes.issue(grant);
  }

  /** Answers a request below {@link CONSOLE_PATH}. `host` is the host that the request is for. */
  async respond(request: IncomingMessage, output: ServerResponse, host: string | undefined): Promise<void> {
    let answer: Answer;
    try {
      answer = await this.#answer(request, host);
    } catch (error) {
      this.#options.log.error('a request of the console failed', { reason: (error as Error).message });
      answer = fail(500, 'failed', 'the request has failed; the log of the server says why');
    }
    sendAnswer(request, output, answer);
  }

  /** Serves or refuses a request for a websocket. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, upgrade: Upgrade): void {
    const address = addressOf(socket);
    const ticket =
      upgrade.unavailable === null
        ? this.#redeem(request, upgrade.host, address)
        : fail(503, 'busy', upgrade.unavailable);
    if ('status' in ticket) {
      endWithAnswer(socket, ticket);
      return;
    }
    const { session, link } = ticket;
    upgrade.admit();
    let isServed = false;
    socket.once('close', () => {
      if (!isServed) link.close();
    });
    const accepted = (transport: Transport) => {
      isServed = true;
      const remove = this.#sessions.addSocket(session, transport);
      void link
        .serve(transport, address)
        .catch(() => {})
        .finally(remove);
    };
    upgrade.upgrader.upgrade(request, socket, head, accepted, SUBPROTOCOL);
  }

  /** Whether the console answers requests for this path. */
  serves(path: string): boolean {
    return path === CONSOLE_PATH || path.startsWith(`${CONSOLE_PATH}/`);
  }

  /** Ends all sessions and their websockets, and invalidates codes and tickets. */
  close(): void {
    this.#isClosed = true;
    this.#codes.revoke(() => true);
    this.#sessions.close();
  }

  /** Returns the ticket of a request for a websocket, or the answer that refuses it. */
  #redeem(
    request: IncomingMessage,
    host: string | undefined,
    address: string | null,
  ): Ticket<Grant> | Answer {
    const origin = ownOrigin(request, host, { tls: this.#options.tls, required: true });
    if (origin === null) return this.#refuse(FOREIGN_ORIGIN, address);
    if (pathOf(request) !== `${CONSOLE_PATH}/connect`) return NOT_FOUND;
    if (handshakeError(request) !== null) return fail(400, 'badRequest', 'this is not a websocket request');
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    const secret = offered.find((name) => name.startsWith(TICKET_PREFIX))?.slice(TICKET_PREFIX.length);
    if (secret === undefined || !offered.includes(SUBPROTOCOL)) {
      return fail(
        400,
        'badRequest',
        `the subprotocols ${SUBPROTOCOL} and ${TICKET_PREFIX}TICKET are missing`,
      );
    }
    const ticket = this.#tickets.redeem(secret);
    if (ticket === null) return this.#refuse(BAD_TICKET, address);
    this.#release(ticket.session);
    if (this.#sessionOf(request, origin) === ticket.session) return ticket;
    ticket.link.close();
    return this.#refuse(BAD_TICKET, address);
  }

  async #answer(request: IncomingMessage, host: string | undefined): Promise<Answer> {
    if (this.#isClosed) return ENDED;
    const { method } = request;
    const path = pathOf(request);
    const route = ROUTES[path.slice(CONSOLE_PATH.length)] ?? 'page';
    if (route === 'code') return this.#code(request);
    const origin = ownOrigin(request, host, { tls: this.#options.tls, required: method === 'POST' });
    if (origin === null) return this.#refuse(FOREIGN_ORIGIN, addressOf(request.socket));
    if (route === 'page') return this.#page.answer(request, path, origin);
    const allowed = METHODS[route];
    if (method !== allowed) return fail(405, 'badRequest', `this needs ${allowed}`, { allow: allowed });
    switch (route) {
      case 'sign-in':
        return this.#signIn(request, origin);
      case 'session':
        return this.#withSession(request, origin, (session) => this.#describe(session));
      case 'ticket':
        return this.#withSession(request, origin, (session) => this.#ticket(request, session));
      case 'sign-out':
        return this.#withSession(request, origin, (session) => this.#signOut(request, session, origin));
      case 'machine':
        return this.#withSession(request, origin, (session) => this.#machine(request, session));
    }
  }

  /** Gives a code to a client that has proved what it may do. A browser cannot ask: it always sends an Origin with a POST request. */
  async #code(request: IncomingMessage): Promise<Answer> {
    const { authorize } = this.#options;
    if (authorize === null) return NOT_FOUND;
    if (request.headers.origin !== undefined) return this.#refuse(FOREIGN_ORIGIN, addressOf(request.socket));
    if (request.method !== 'POST') return fail(405, 'badRequest', 'this needs POST', { allow: 'POST' });
    const body = await readBody(request);
    if ('problem' in body) return BODY_PROBLEMS[body.problem];
    const grant = await authorize(request, body.value.readOnly === true);
    if (isAnswer(grant)) return grant;
    return answerJson(200, { code: this.issueCode(grant), expiresInMs: CODE_TTL_MS });
  }

  async #signIn(request: IncomingMessage, origin: OwnOrigin): Promise<Answer> {
    const { socket } = request;
    const address = addressOf(socket);
    const body = await readBody(request);
    if ('problem' in body) return BODY_PROBLEMS[body.problem];
    const { code } = body.value;
    const grant = typeof code === 'string' ? this.#codes.redeem(code) : null;
    if (grant === null || !this.#options.isGranted(grant)) {
      this.#logRefusal(address);
      const refusal = this.#refuse(BAD_CODE, address);
      await refusalDelay(socket, this.#delay.failed(address));
      return refusal;
    }
    this.#endSessionsOf(request, origin);
    const session = this.#sessions.open(grant, this.#options.expiryOf(grant));
    this.#options.log.info('console sign-in', { address, readOnly: this.#options.isReadOnly(grant) });
    const maxAgeSeconds = Math.max(0, Math.ceil((session.expiresAtMs - Date.now()) / 1_000));
    const cookie = sessionCookie(origin, session.id, maxAgeSeconds);
    return answerJson(200, { key: session.key }, { 'set-cookie': cookie });
  }

  /** A browser has one session: it must not keep rights that its latest sign-in does not give, nor any after it signs out. */
  #endSessionsOf(request: IncomingMessage, origin: OwnOrigin): void {
    for (const id of cookiesOf(request, origin)) {
      const earlier = this.#sessions.use(id);
      if (typeof earlier !== 'string') this.#sessions.end(earlier, 'kicked');
    }
  }

  /** Anyone can send wrong codes. They must not fill the log. */
  #logRefusal(address: string | null): void {
    this.#refusals++;
    const nowMs = performance.now();
    if (nowMs - this.#refusalLoggedMs < REFUSAL_LOG_MS) return;
    this.#options.log.warn('console sign-in refused', { address, attempts: this.#refusals });
    this.#refusals = 0;
    this.#refusalLoggedMs = nowMs;
  }

  async #withSession(
    request: IncomingMessage,
    origin: OwnOrigin,
    answer: (session: ConsoleSession<Grant>) => Answer | Promise<Answer>,
  ): Promise<Answer> {
    const session = this.#sessionOf(request, origin);
    if (typeof session === 'string') return SESSION_PROBLEMS[session];
    const key = request.headers['x-console-key'];
    if (typeof key !== 'string' || !isKey(key, session.key)) return SESSION_PROBLEMS.signedOut;
    return answer(session);
  }

  /** The session of a request, or why it has none. */
  #sessionOf(request: IncomingMessage, origin: OwnOrigin): ConsoleSession<Grant> | SessionEnd {
    const found = cookiesOf(request, origin).map((id) => this.#sessions.use(id));
    const ends = found.filter((session) => typeof session === 'string');
    return (
      found.find((session) => typeof session !== 'string') ??
      ends.find((end) => end !== 'signedOut') ??
      'signedOut'
    );
  }

  #describe({ grant, expiresAtMs }: ConsoleSession<Grant>): Answer {
    const { version, environments, isReadOnly, scopesOf } = this.#options;
    const [readOnly, scopes] = [isReadOnly(grant), scopesOf(grant)];
    return answerJson(200, { version, readOnly, scopes, expiresAtMs, environments });
  }

  async #ticket(request: IncomingMessage, session: ConsoleSession<Grant>): Promise<Answer> {
    const body = await readBody(request);
    if ('problem' in body) return BODY_PROBLEMS[body.problem];
    const environment = this.#environment(body.value.environment);
    if (environment === null) return UNKNOWN_ENVIRONMENT;
    const waiting = this.#waiting.get(session) ?? 0;
    if (waiting >= MAX_TICKETS_PER_SESSION || waiting + session.sockets.size >= MAX_SOCKETS_PER_SESSION) {
      return fail(503, 'busy', 'this browser has too many connections; close some tabs');
    }
    this.#waiting.set(session, waiting + 1);
    let link: ConsoleLink;
    try {
      link = await this.#options.connect(session.grant, environment);
    } catch (error) {
      this.#release(session);
      return fail(502, 'unreachable', (error as Error).message);
    }
    const current = this.#sessions.use(session.id);
    if (current !== session) {
      link.close();
      return SESSION_PROBLEMS[current as SessionEnd];
    }
    const ticket = this.#tickets.issue({ session, link });
    return answerJson(200, { ticket, path: `${CONSOLE_PATH}/connect` });
  }

  #release(session: ConsoleSession<Grant>): void {
    const waiting = (this.#waiting.get(session) ?? 1) - 1;
    if (waiting > 0) this.#waiting.set(session, waiting);
    else this.#waiting.delete(session);
  }

  async #signOut(
    request: IncomingMessage,
    session: ConsoleSession<Grant>,
    origin: OwnOrigin,
  ): Promise<Answer> {
    const body = await readBody(request);
    if ('problem' in body) return BODY_PROBLEMS[body.problem];
    this.#sessions.end(session, 'signedOut');
    return { status: 204, body: '', headers: { 'set-cookie': sessionCookie(origin, '', 0) } };
  }

  async #machine(request: IncomingMessage, session: ConsoleSession<Grant>): Promise<Answer> {
    const { searchParams } = new URL(request.url ?? '', 'http://localhost');
    const environment = this.#environment(searchParams.get('environment') ?? undefined);
    if (environment === null) return UNKNOWN_ENVIRONMENT;
    const facts = await this.#options.machine(session.grant, environment);
    if (facts !== null) return answerJson(200, facts);
    return fail(404, 'notFound', 'facts are known only for the server that serves this console');
  }

  /** The name of a known environment; the default one for undefined, and null for an unknown one. */
  #environment(name: unknown): string | null {
    const { environments } = this.#options;
    const found = environments.find((known) => (name === undefined ? known.default : known.name === name));
    return found?.name ?? null;
  }

  #refuse(answer: Answer, address: string | null): Answer {
    this.#options.rejected?.(answer.status, answer.reason ?? '', address);
    return answer;
  }
}

type Route = 'sign-in' | 'session' | 'ticket' | 'sign-out' | 'machine';

const ROUTES: Readonly<Record<string, Route | 'code'>> = {
  '/sign-in': 'sign-in',
  '/session': 'session',
  '/ticket': 'ticket',
  '/sign-out': 'sign-out',
  '/machine': 'machine',
  '/code': 'code',
};

const METHODS: Readonly<Record<Route, 'GET' | 'POST'>> = {
  'sign-in': 'POST',
  session: 'GET',
  ticket: 'POST',
  'sign-out': 'POST',
  machine: 'GET',
};

function isAnswer<Grant>(value: Grant | Answer): value is Answer {
  return typeof value === 'object' && value !== null && 'status' in value && 'headers' in value;
}

/** The path of the request, without the query. An absolute URL as the target has its host checked by the listener. */
function pathOf({ url = '/' }: IncomingMessage): string {
  return url.replace(/^https?:\/\/[^/?]*/i, '').replace(/\?.*/s, '');
}
