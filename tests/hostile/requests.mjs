// The table of hostile and merely large requests: what a client can send at the documented limits, for every method.
import { BINARY_MESSAGES } from './binary-messages.mjs';
import { FILE_REQUESTS } from './file-requests.mjs';
import { JSON_MESSAGES } from './json-messages.mjs';
import { PROCESS_REQUESTS } from './process-requests.mjs';
import { SESSION_REQUESTS } from './session-requests.mjs';
import { SHARING_REQUESTS } from './sharing-requests.mjs';
import { deepObject, wideObject } from './texts.mjs';

/**
 * @typedef {object} HostileRequest Requests of one method that are sent one after the other.
 * @property {string} name
 * @property {(fixture: import('./fixture.mjs').Fixture) => unknown[]} requests The params of each request.
 * @property {(client: import('./client.mjs').HostileClient, fixture: import('./fixture.mjs').Fixture) => Promise<void>} [before]
 * What has to exist; not measured.
 * @property {'result'} [answer] The server must not refuse any of them. Otherwise any answer will do.
 * @property {boolean} [handshake] False when the connection has no session yet.
 */

/** The requests of each method, or why its params need no entry of their own. @type {Record<string, HostileRequest[] | string>} */
export const METHOD_REQUESTS = {
  ...SESSION_REQUESTS,
  ...FILE_REQUESTS,
  ...PROCESS_REQUESTS,
  ...SHARING_REQUESTS,
};

/** Sent to every method. */
const FOR_EVERY_METHOD = {
  name: 'params of the wrong shape',
  requests: () => [wideObject(), deepObject(), Array(100_000).fill(null)],
};

/**
 * One row of the table.
 * @typedef {{ name: string, handshake: boolean } & ({ method: string, entry: HostileRequest } | { message: () => string | Buffer, binary?: boolean })} Row
 */

/** @type {Row[]} */
export const ROWS = [
  ...Object.entries(JSON_MESSAGES).map(([name, message]) => ({
    name: `JSON: ${name}`,
    handshake: true,
    message,
  })),
  ...Object.entries(BINARY_MESSAGES).map(([name, message]) => ({
    name: `binary message: ${name}`,
    handshake: true,
    message,
    binary: true,
  })),
  ...Object.entries(METHOD_REQUESTS).flatMap(([method, entries]) =>
    [FOR_EVERY_METHOD, ...(typeof entries === 'string' ? [] : entries)].map((entry) => ({
      name: `${method}: ${entry.name}`,
      handshake: entry.handshake ?? method !== 'initialize',
      method,
      entry,
    })),
  ),
];
