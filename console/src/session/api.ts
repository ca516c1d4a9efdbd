// The HTTP interface of the console's server.

/** Why a request failed. `offline`: no answer. `noLink`: this browser has never signed in. The others are codes of the server. */
export type ApiErrorCode =
  | 'offline'
  | 'signedOut'
  | 'expired'
  | 'kicked'
  | 'badCode'
  | 'busy'
  | 'unreachable'
  | 'notFound'
  | 'noLink'
  | 'failed';

export class ApiError extends Error {
  readonly code: ApiErrorCode;

  constructor(code: ApiErrorCode, message: string) {
    super(message);
    this.code = code;
  }

  /** Whether the session is over. */
  get isFinal(): boolean {
    return (
      this.code === 'signedOut' || this.code === 'noLink' || this.code === 'expired' || this.code === 'kicked'
    );
  }
}

export interface Environment {
  readonly name: string;
  readonly label: string;
  /** Where it is: a URL, or words. */
  readonly address: string;
  /** Where commands begin: `~` for the home directory there, null for the directory of the server. */
  readonly directory: string | null;
  readonly default: boolean;
}

/** What this browser may do. */
export interface Scopes {
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

export interface Session {
  readonly version: string;
  readonly readOnly: boolean;
  readonly scopes: Scopes;
  readonly expiresAtMs: number | null;
  readonly environments: readonly Environment[];
}

export interface Ticket {
  readonly ticket: string;
  readonly path: string;
}

const KEY = 'exec-server-console.key';
/** Set once this browser has signed in, also after it has signed out. */
const VISITED = 'exec-server-console.visited';
const CODES: readonly string[] = [
  'signedOut',
  'expired',
  'kicked',
  'badCode',
  'busy',
  'unreachable',
  'notFound',
];

/** Exchanges a one-time code for a session of this browser. */
export async function signIn(code: string): Promise<void> {
  const { key } = (await request('POST', 'sign-in', { code })) as { key: string };
  localStorage.setItem(KEY, key);
  localStorage.setItem(VISITED, 'yes');
}

/** Calls back when another tab of this browser has signed in. Returns a function that ends this. */
export function onSignedIn(listener: () => void): () => void {
  const changed = ({ key, newValue }: StorageEvent) => {
    if (key === KEY && newValue !== null) listener();
  };
  addEventListener('storage', changed);
  return () => removeEventListener('storage', changed);
}

export async function fetchSession(): Promise<Session> {
  return (await request('GET', 'session')) as Session;
}

/** Gets a single-use ticket for a websocket. */
export async function fetchTicket(environment: string, signal?: AbortSignal): Promise<Ticket> {
  return (await request('POST', 'ticket', { environment }, signal)) as Ticket;
}

export async function fetchMachine(environment: string): Promise<unknown> {
  return request('GET', `machine?environment=${encodeURIComponent(environment)}`);
}

/** Ends the session of this browser. */
export async function signOut(): Promise<void> {
  try {
    await request('POST', 'sign-out', {});
  } finally {
    localStorage.removeItem(KEY);
  }
}

/** Asks again when another tab has signed in since: the answer is about the session before that. */
async function request(
  method: 'GET' | 'POST',
  name: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<unknown> {
  for (;;) {
    const key = localStorage.getItem(KEY);
    try {
      return await requestWith(key, method, name, body, signal);
    } catch (error) {
      const isOver = error instanceof ApiError && error.isFinal;
      if (!isOver || localStorage.getItem(KEY) === key) throw error;
    }
  }
}

async function requestWith(
  key: string | null,
  method: 'GET' | 'POST',
  name: string,
  body: unknown,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(`/console/${name}`, {
      method,
      headers: {
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...(key !== null && { 'X-Console-Key': key }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      credentials: 'same-origin',
      cache: 'no-store',
      redirect: 'error',
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw new ApiError('offline', `the server does not answer (${(error as Error).message})`);
  }
  const text = await response.text();
  const answer = parse(text);
  if (response.ok) return answer;
  const { error, message } = (answer ?? {}) as { error?: unknown; message?: unknown };
  // A proxy on the way answers instead of the server.
  if (error === undefined && response.status >= 502 && response.status <= 504)
    throw new ApiError('offline', `the server does not answer (status ${response.status})`);
  const known = CODES.includes(error as string) ? (error as ApiErrorCode) : 'failed';
  const code = known === 'signedOut' && localStorage.getItem(VISITED) === null ? 'noLink' : known;
  // An old key stays: another tab may have signed in meanwhile, and its key reaches this one later.
  throw new ApiError(
    code,
    typeof message === 'string' ? message : `the server answered with the status ${response.status}`,
  );
}

function parse(text: string): unknown {
  try {
    return text === '' ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
