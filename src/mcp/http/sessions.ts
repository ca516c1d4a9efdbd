import { randomUUID } from 'node:crypto';
import { isInitializeRequest, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import type { AgentServers } from '../agent-server.ts';
import type { ClientConnection } from '../client-connection.ts';
import { MAX_SESSIONS, MAX_SESSIONS_PER_OWNER, SESSION_CHECK_MS, SESSION_IDLE_MS } from '../limits.ts';
import { RefusedRequest } from './request-body.ts';

interface Session {
  readonly id: string;
  /** The owner of the token that opened it. */
  readonly owner: string;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly connection: ClientConnection;
  /** Requests and streams that are open. */
  open: number;
  usedAt: number;
}

/** The sessions of clients that speak the 2025 protocol. A session ends when its client says so, or when it is idle for long. */
export class Sessions {
  readonly #servers: AgentServers;
  readonly #now: () => number;
  readonly #sessions = new Map<string, Session>();
  readonly #timer: NodeJS.Timeout;

  constructor(servers: AgentServers, now: () => number = () => performance.now()) {
    this.#servers = servers;
    this.#now = now;
    this.#timer = setInterval(() => this.endIdle(), SESSION_CHECK_MS).unref();
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Answers a request. `closed` resolves when its client has the whole response, or is gone. Throws RefusedRequest. */
  async answer(request: Request, body: unknown, owner: string, closed: Promise<void>): Promise<Response> {
    const session = await this.#sessionOf(request, body, owner);
    session.open++;
    session.usedAt = this.#now();
    void closed.then(() => {
      session.open--;
      session.usedAt = this.#now();
    });
    return session.transport.handleRequest(request, { parsedBody: body });
  }

  /** Ends the sessions that were not used for long. */
  endIdle(): void {
    const idleSince = this.#now() - SESSION_IDLE_MS;
    for (const session of this.#sessions.values()) {
      if (session.open === 0 && session.usedAt <= idleSince) void session.transport.close();
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#sessions.values()].map(({ transport }) => transport.close()));
  }

  async #sessionOf(request: Request, body: unknown, owner: string): Promise<Session> {
    const id = request.headers.get('mcp-session-id');
    if (id === null) {
      const isFirst = [body].flat().some((message) => isInitializeRequest(message));
      if (isFirst) return this.#open(owner);
      throw new RefusedRequest(400, 'the request has no Mcp-Session-Id; begin with initialize');
    }
    const session = this.#sessions.get(id);
    // A client begins again after 404.
    if (session === undefined || session.owner !== owner) throw new RefusedRequest(404, 'unknown session');
    return session;
  }

  async #open(owner: string): Promise<Session> {
    this.#makeRoom(owner);
    const id = randomUUID();
    const connection = this.#servers.connection('ask');
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id });
    const session: Session = { id, owner, transport, connection, open: 0, usedAt: this.#now() };
    const server = this.#servers.server(connection);
    server.onclose = () => {
      this.#sessions.delete(id);
      void this.#servers.end(connection);
    };
    this.#sessions.set(id, session);
    await server.connect(transport);
    return session;
  }

  /**
   * Ends a session if there are as many as allowed: of an owner who has more than this one, the most first, or of this one. Of them the
   * one that was not used for the longest time.
   */
  #makeRoom(owner: string): void {
    const counts = new Map<string, number>();
    for (const each of this.#sessions.values()) counts.set(each.owner, countOf(counts, each) + 1);
    const own = counts.get(owner) ?? 0;
    const isOver = own >= MAX_SESSIONS_PER_OWNER;
    if (!isOver && this.#sessions.size < MAX_SESSIONS) return;
    const [oldest] = [...this.#sessions.values()]
      .filter(({ open }) => open === 0)
      .filter((each) => each.owner === owner || (!isOver && countOf(counts, each) > own))
      .sort((a, b) => countOf(counts, b) - countOf(counts, a) || a.usedAt - b.usedAt);
    if (oldest === undefined) {
      const limit = isOver ? MAX_SESSIONS_PER_OWNER : MAX_SESSIONS;
      throw new RefusedRequest(503, `the server has ${limit} sessions in use; try again later`);
    }
    this.#sessions.delete(oldest.id);
    void oldest.transport.close();
  }
}

function countOf(counts: ReadonlyMap<string, number>, { owner }: Session): number {
  return counts.get(owner) ?? 0;
}
