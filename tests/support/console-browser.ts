import { once } from 'node:events';
import { request } from 'node:http';
import { request as secureRequest } from 'node:https';
import { WebSocket } from 'ws';
import { ExecServerClient } from '../../src/client/client.ts';
import { webSocketTransport } from '../../src/client/connection/open-websocket.ts';

/** An answer of a console. */
interface ConsoleAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as JSON; empty when it is none. */
  readonly json: Readonly<Record<string, unknown>>;
}

type Headers = Readonly<Record<string, string>>;

/** The authority that the browser trusts, and its certificate. */
interface TlsOptions {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** What a page of the console sends, without a browser: its Origin, the cookie and the key. */
export class ConsoleBrowser {
  readonly origin: string;
  cookie: string | null = null;
  key: string | null = null;
  readonly #tls: TlsOptions;

  constructor(origin: string, tls: TlsOptions = {}) {
    this.origin = origin;
    this.#tls = tls;
  }

  /** Opens a link of the console: signs in with the code of its fragment. */
  static async open(link: string, tls: TlsOptions = {}): Promise<ConsoleBrowser> {
    const { origin, hash } = new URL(link);
    const browser = new ConsoleBrowser(origin, tls);
    const answer = await browser.signIn(hash.slice('#code='.length));
    if (answer.status !== 200) throw new Error(`the console refused the code: ${answer.text}`);
    return browser;
  }

  async signIn(code: string): Promise<ConsoleAnswer> {
    const answer = await this.post('sign-in', { code });
    const [cookie] = answer.headers['set-cookie'] ?? [];
    if (cookie !== undefined) this.cookie = cookie.split(';')[0]!;
    if (typeof answer.json.key === 'string') this.key = answer.json.key;
    return answer;
  }

  get(path: string, headers: Headers = {}): Promise<ConsoleAnswer> {
    return this.send('GET', path, undefined, headers);
  }

  post(path: string, body: unknown = {}, headers: Headers = {}): Promise<ConsoleAnswer> {
    const own = { origin: this.origin, 'content-type': 'application/json' };
    return this.send('POST', path, JSON.stringify(body), { ...own, ...headers });
  }

  /** Sends a request for a path below `/console/`. An empty header is left out. */
  send(method: string, path: string, body: string | undefined, headers: Headers): Promise<ConsoleAnswer> {
    const all: Record<string, string> = {
      ...(this.cookie !== null && { cookie: this.cookie }),
      ...(this.key !== null && { 'x-console-key': this.key }),
      ...headers,
    };
    for (const [name, value] of Object.entries(all)) if (value === '') delete all[name];
    return new Promise((resolve, reject) => {
      const { protocol, hostname, port } = new URL(this.origin);
      const sent = (protocol === 'https:' ? secureRequest : request)(
        { hostname, port, method, path: `/console/${path}`, headers: all, agent: false, ...this.#tls },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (piece: string) => {
            text += piece;
          });
          response.once('end', () => {
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              text,
              json: parse(text),
            });
          });
        },
      );
      sent.once('error', reject);
      sent.end(body);
    });
  }

  /** Gets a ticket. */
  async ticket(environment?: string): Promise<string> {
    const { status, text, json } = await this.post(
      'ticket',
      environment === undefined ? {} : { environment },
    );
    if (status !== 200) throw new Error(`no ticket: ${text}`);
    return json.ticket as string;
  }

  /** Opens a websocket with a ticket. Rejects with `Unexpected server response: STATUS` when it is refused. */
  async connect(ticket: string, headers: Headers = {}): Promise<WebSocket> {
    const { origin = this.origin, ...others } = headers;
    const socket = new WebSocket(
      `${this.origin.replace(/^http/, 'ws')}/console/connect`,
      ['exec-server', `ticket.${ticket}`],
      { origin, headers: { ...(this.cookie !== null && { cookie: this.cookie }), ...others }, ...this.#tls },
    );
    await once(socket, 'open');
    return socket;
  }
}

/** The close code of a websocket. */
export async function closeCode(socket: WebSocket): Promise<number> {
  const [code] = (await once(socket, 'close')) as [number];
  return code;
}

function parse(text: string): ConsoleAnswer['json'] {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** Runs a program through a console with the client library, as the page does. Returns its output. */
export async function outputThrough(browser: ConsoleBrowser, argv: readonly string[]): Promise<string> {
  const client = await ExecServerClient.connect({
    open: async () => webSocketTransport(await browser.connect(await browser.ticket())),
    resumable: false,
  });
  try {
    return (await client.run([...argv])).text.stdout;
  } finally {
    await client.close();
  }
}
