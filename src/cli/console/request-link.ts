import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { isObject } from '../../base/is-object.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { systemReason } from '../../client/system-error.ts';
import { consoleOrigin, signInUrl } from '../../console/paths.ts';
import type { Target, TransportChoice } from '../environments/target.ts';
import { RunError, UsageError } from '../failures.ts';
import { LINK_TIMEOUT_MS, MAX_LINK_ANSWER_BYTES } from './limits.ts';

/**
 * Asks a server that runs with --console for a link that signs one browser in, with the rights of the token. Throws UsageError for an
 * environment that no browser can reach, and RunError when the server gives none.
 */
export async function requestLink(target: Target, readOnly: boolean): Promise<string> {
  const choice = await target.transport();
  if (!('url' in choice) || !/^wss?:/.test(String(choice.url))) {
    throw new UsageError(
      `--link needs a ws:// or wss:// server, which browsers can reach; 'exec-server console -E ${target.name}' serves a console for this one`,
      'console',
    );
  }
  const origin = consoleOrigin(String(choice.url));
  const { status, body } = await post(`${origin}/console/code`, choice, { readOnly }).catch(
    (error: Error) => {
      throw new RunError(
        `cannot reach ${origin}: ${systemReason(error)}; check the address and that the server is running`,
      );
    },
  );
  if (status === 200 && typeof body.code === 'string') return signInUrl(origin, body.code);
  if (status === 404) {
    throw new RunError(`the server at ${origin} has no console; start it with 'exec-server serve --console'`);
  }
  if (status === 401) {
    const advice =
      choice.authToken === undefined ? 'use --token-file or EXEC_SERVER_TOKEN' : 'use a valid token';
    throw new RunError(`the server at ${origin} needs a token (${String(body.message)}); ${advice}`);
  }
  throw new RunError(`the server at ${origin} has refused a link (HTTP ${status})`);
}

interface JsonAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

async function post(url: string, choice: TransportChoice, value: object): Promise<JsonAnswer> {
  const { authToken, tls } = choice as Exclude<TransportChoice, { open: unknown }>;
  const limit = new TimeLimit(LINK_TIMEOUT_MS);
  const options: RequestOptions = {
    ...(tls as RequestOptions | undefined),
    method: 'POST',
    signal: limit.signal,
    headers: {
      'content-type': 'application/json',
      ...(authToken !== undefined && { authorization: `Bearer ${authToken}` }),
    },
  };
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const send = url.startsWith('https:') ? httpsRequest : httpRequest;
      send(url, options, resolve).once('error', reject).end(JSON.stringify(value));
    });
    return { status: response.statusCode ?? 0, body: parse(await readText(response)) };
  } finally {
    limit.end();
  }
}

async function readText(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of response.setEncoding('utf8') as AsyncIterable<string>) {
    text += piece;
    if (text.length > MAX_LINK_ANSWER_BYTES) throw new Error('its answer is too long');
  }
  return text;
}

function parse(text: string): JsonAnswer['body'] {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
