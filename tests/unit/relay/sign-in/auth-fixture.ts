import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { loadFileLock } from '../../../../src/cli/file-lock.ts';
import { createLogger } from '../../../../src/observability/log.ts';
import { webServer } from '../../../support/web-servers.ts';

export const NOW = Date.parse('2026-11-17T06:22:36.500Z');
export const { signal } = new AbortController();

/** A request to an auth service. */
export interface Asked {
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A status, a body and a redirect, or a closed connection. */
export type Reply = { readonly status?: number; readonly body?: unknown; readonly location?: string } | 'cut';

/** A service on this machine that issues and checks credentials. The test sets its answers. */
export class FakeAuthService {
  readonly asked: Asked[] = [];
  answer: (asked: Asked) => Reply | Promise<Reply> = () => ({ status: 500 });
  url = '';

  static async open(): Promise<FakeAuthService> {
    const service = new FakeAuthService();
    const server = await webServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const { method, url, headers } = request;
      const asked = { line: `${method} ${url}`, headers, text: Buffer.concat(parts).toString() };
      service.asked.push(asked);
      const reply = await service.answer(asked);
      if (reply === 'cut') {
        request.socket.destroy();
        return;
      }
      const { status = 200, body = {}, location } = reply;
      response.writeHead(status, location === undefined ? {} : { location });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
    onTestFinished(() => server.close());
    service.url = server.url;
    return service;
  }

  lines(): string[] {
    return this.asked.map(({ line }) => line);
  }
}

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token whose signature is not checked. */
export function jwt(claims: object): string {
  return `${part({ alg: 'none' })}.${part(claims)}.c2ln`;
}

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });

/** The public keys of the service that signs agents' tokens. */
export const PUBLIC_KEYS = {
  keys: [{ ...rsa.publicKey.export({ format: 'jwk' }), kid: 'key-1', alg: 'RS256' }],
};

/** The seed of the agent's key, and its PKCS #8 form. */
export const AGENT_SEED = createHash('sha256').update('agent-identity test key 1').digest();
export const AGENT_PRIVATE_KEY = 'MC4CAQAwBQYDK2VwBCIEIAQqFX9ZkyIBvDYqh9fAcNjZM0oEfB6iIl+SFxMicWet';

const SECONDS = Math.floor(NOW / 1_000);

export const AGENT_CLAIMS = {
  iss: 'https://chatgpt.com/codex-backend/agent-identity',
  aud: 'codex-app-server',
  exp: SECONDS + 3_600,
  iat: SECONDS,
  agent_runtime_id: 'agent-runtime-1',
  agent_private_key: AGENT_PRIVATE_KEY,
  account_id: 'account-1',
  chatgpt_user_id: 'user-1',
  plan_type: 'pro',
  chatgpt_account_is_fedramp: false,
};

/** An agent's token, signed with RS256 whatever the header says. */
export function agentToken(claims: object = {}, header: object = {}): string {
  const head = { alg: 'RS256', typ: 'JWT', kid: 'key-1', ...header };
  const signed = `${part(head)}.${part({ ...AGENT_CLAIMS, ...claims })}`;
  return `${signed}.${sign('RSA-SHA256', Buffer.from(signed), rsa.privateKey).toString('base64url')}`;
}

/** A folder of codex with these files. */
export function codexFolder(files: Readonly<Record<string, unknown>> = {}): string {
  const home = mkdtempSync(join(tmpdir(), 'sign-in-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(home, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return home;
}

export function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

/** The members of auth.json after a ChatGPT login. */
export function chatGptJson(tokens: object = {}, more: object = {}): { tokens: Record<string, unknown> } {
  return {
    tokens: {
      // Without the user's id the reference does not retry after a 401.
      id_token: jwt({
        'https://api.openai.com/auth': { chatgpt_account_id: 'account-1', chatgpt_user_id: 'user-1' },
      }),
      access_token: 'access-1',
      refresh_token: 'refresh-1',
      account_id: 'account-1',
      ...tokens,
    },
    last_refresh: new Date(NOW).toISOString(),
    ...more,
  } as never;
}

/** A logger, and what it logged. */
export function recordedLog() {
  const lines: string[] = [];
  return { log: createLogger('debug', (line) => lines.push(line)), lines };
}

/** The lock that the program uses. */
export const fileLock = await loadFileLock();
