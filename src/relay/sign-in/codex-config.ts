import { homedir } from 'node:os';
import { join } from 'node:path';
import { MAX_CODEX_CONFIG_BYTES } from '../limits.ts';
import { CredentialError } from '../registry-auth.ts';
import { readSmallFile } from './small-file.ts';

/** The settings of codex that restrict how it signs in. Only these keys of config.toml are read. */
export interface CodexConfig {
  /** `api` permits only API keys, `chatgpt` only the others. */
  readonly forcedLoginMethod: 'api' | 'chatgpt' | null;
  /** The accounts that a login may belong to. */
  readonly workspaces: readonly string[] | null;
  readonly chatgptBaseUrl: string;
  readonly store: (typeof STORES)[number];
}

const STORES = ['file', 'keyring', 'auto', 'ephemeral'] as const;
const LOGIN_METHODS = ['api', 'chatgpt'] as const;

/** The folder of codex: $CODEX_HOME, else `.codex` in the user's home. */
export function codexHome(env: Readonly<Record<string, string | undefined>>): string {
  return env.CODEX_HOME || join(env.HOME || homedir(), '.codex');
}

/** Which service of OpenAI a `chatgpt_base_url` belongs to; null for an address of another service. */
export function openAiService(chatgptBaseUrl: string): 'production' | 'staging' | null {
  const base = chatgptBaseUrl.trim().replace(/\/+$/, '');
  const [, host = ''] = /^https:\/\/([^/]+)(?:\/backend-api)?(?:\/codex)?$/.exec(base) ?? [];
  if (host === 'chatgpt.com' || host === 'chat.openai.com') return 'production';
  return host === 'chatgpt-staging.com' ? 'staging' : null;
}

export const DEFAULT_CHATGPT_BASE_URL = 'https://chatgpt.com/backend-api';

/** The keys of config.toml that are read. */
export const CODEX_CONFIG_KEYS: readonly string[] = [
  'forced_login_method',
  'forced_chatgpt_workspace_id',
  'chatgpt_base_url',
  'cli_auth_credentials_store',
];

/**
 * Reads config.toml in the folder of codex. `overrides` has values that replace those of the file, in TOML, or as text that is not TOML.
 * Rejects with CredentialError when it is not valid.
 */
export async function readCodexConfig(
  home: string,
  overrides: Readonly<Record<string, string>> = {},
): Promise<CodexConfig> {
  const path = join(home, 'config.toml');
  const text = await readSmallFile(path, MAX_CODEX_CONFIG_BYTES).catch((error: Error) => {
    throw new CredentialError(error.message);
  });
  const file = text === null ? {} : await parseToml(path, text);
  const table = { ...file, ...(await parseValues(overrides)) };
  const invalid = (key: string, expected: string) =>
    new CredentialError(`${key in overrides ? '-c' : `${path}:`} ${key} must be ${expected}`);
  const choice = <T extends string>(key: string, choices: readonly T[]): T | null => {
    const value = table[key];
    if (value === undefined) return null;
    const found = choices.find((one) => one === value);
    if (found !== undefined) return found;
    throw invalid(key, `one of ${choices.join(', ')}`);
  };
  const baseUrl = table.chatgpt_base_url ?? DEFAULT_CHATGPT_BASE_URL;
  if (typeof baseUrl !== 'string') throw invalid('chatgpt_base_url', 'a string');
  const workspaces = asStrings(table.forced_chatgpt_workspace_id);
  if (workspaces === undefined) throw invalid('forced_chatgpt_workspace_id', 'a string or a list of strings');
  return {
    forcedLoginMethod: choice('forced_login_method', LOGIN_METHODS),
    workspaces,
    chatgptBaseUrl: baseUrl,
    store: choice('cli_auth_credentials_store', STORES) ?? 'file',
  };
}

async function parseToml(path: string, text: string): Promise<Readonly<Record<string, unknown>>> {
  const { parse, TomlError } = await import('smol-toml');
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const problem = error.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    throw new CredentialError(`${path}:${error.line}:${error.column}: not valid TOML: ${problem}`);
  }
}

async function parseValues(texts: Readonly<Record<string, string>>): Promise<Record<string, unknown>> {
  const { parse } = await import('smol-toml');
  const values: Record<string, unknown> = {};
  for (const [key, text] of Object.entries(texts)) {
    try {
      values[key] = parse(`value = ${text}`).value;
    } catch {
      values[key] = text;
    }
  }
  return values;
}

/** Null for no restriction, undefined for an invalid value. */
function asStrings(value: unknown): readonly string[] | null | undefined {
  if (value === undefined) return null;
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  return list.every((item) => typeof item === 'string') ? list : undefined;
}
