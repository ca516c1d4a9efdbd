import { ClientError } from '../errors.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from '../limits.ts';
import { checkSignal, expectOptions, kindOf, type OptionNames, wrong } from './option-checks.ts';
import type { KeepAliveOptions, SessionOptions, TransportSource } from './session-options.ts';

/** Options of a connection to a URL. The Node client and the browser client add theirs. */
export interface CommonUrlOptions extends SessionOptions, KeepAliveOptions {
  readonly url: string | URL;
  readonly authToken?: string;
}

/** Connects over transports that the caller provides: a command's stdio, memory, a relay. */
export interface TransportOptions extends SessionOptions, TransportSource {}

/** Options of a connection to a URL, with the defaults of its limits and timeouts. */
type Complete<UrlOptions> = UrlOptions &
  Required<Pick<CommonUrlOptions, 'maxMessageBytes' | 'pingIntervalMs' | 'pongTimeoutMs'>>;

/**
 * The options of a connection. A text or a URL is the address of the server. `more` are the options of a connection to a URL that
 * not every client has, and `further` are arguments after the first, which there must not be. Throws ClientError of the kind `config` for an unknown option.
 */
export function connectOptions<UrlOptions extends CommonUrlOptions>(
  target: string | URL | UrlOptions | TransportOptions,
  more: OptionNames<Omit<UrlOptions, keyof CommonUrlOptions>>,
  further: readonly unknown[],
): Complete<UrlOptions> | TransportOptions {
  if (further.some((argument) => argument !== undefined))
    throw new ClientError('config', '`connect` takes one argument', {
      hint: 'pass the address together with the options, as { url, authToken }',
    });
  if (typeof target === 'string' || target instanceof URL)
    return completed({ url: String(target) } as UrlOptions);
  if (typeof target !== 'object' || target === null)
    throw wrong('the target of `connect` is', target, 'a URL or options', ADDRESS, 'config');
  if ('open' in target) {
    // An object of a class may have members of its own.
    if (isPlain(target)) expectOptions('connect', target, TRANSPORT_OPTIONS, 'config');
    if (typeof target.open !== 'function')
      throw wrong('`open` is', target.open, 'a function', undefined, 'config');
    return target;
  }
  expectOptions('connect', target, { ...URL_OPTIONS, ...more }, 'config');
  checkSignal(target.signal, 'config');
  const { url, authToken, clientName } = target;
  if (typeof url !== 'string' && !((url as unknown) instanceof URL))
    throw new ClientError('config', `\`url\` is ${kindOf(url)}`, { hint: ADDRESS });
  for (const [name, value] of Object.entries({ authToken, clientName })) {
    if (value !== undefined && typeof value !== 'string')
      throw wrong(`\`${name}\` is`, value, 'a text', undefined, 'config');
  }
  return completed(target);
}

/** Null is no default: it is rejected later. */
function completed<UrlOptions extends CommonUrlOptions>(options: UrlOptions): Complete<UrlOptions> {
  const {
    maxMessageBytes = MAX_MESSAGE_BYTES,
    pingIntervalMs = PING_INTERVAL_MS,
    pongTimeoutMs = PEER_SILENCE_TIMEOUT_MS,
  } = options;
  return { ...options, maxMessageBytes, pingIntervalMs, pongTimeoutMs };
}

const SESSION_OPTIONS: OptionNames<SessionOptions> = {
  clientName: true,
  connectTimeoutMs: true,
  initializeTimeoutMs: true,
  recoveryWindowMs: true,
  resumeSessionId: true,
  detachedSessionTtlMs: true,
  whileDraining: true,
  onNetworkPolicyRequest: true,
  trace: true,
  maxMessageBytes: true,
  signal: true,
};

/** Options that the Node client and the browser client have in common. */
const URL_OPTIONS: OptionNames<CommonUrlOptions> = {
  ...SESSION_OPTIONS,
  url: true,
  authToken: true,
  pingIntervalMs: true,
  pongTimeoutMs: true,
};

const TRANSPORT_OPTIONS: OptionNames<TransportOptions> = { ...SESSION_OPTIONS, open: true, resumable: true };

const ADDRESS = 'pass the address of the server, such as ws://127.0.0.1:4000';

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
