import type { Logger } from '../../observability/log.ts';
import { isLoopbackHost, type OutboundOptions } from '../outbound/proxy.ts';
import { bearerAuth, CredentialError, type RegistryAuth } from '../registry-auth.ts';
import { parseRegistryUrl } from '../registry-client.ts';
import type { FileLock } from '../service/store/registration-file.ts';
import { AuthFile, type AuthJson } from './auth-file.ts';
import { AuthServices, variable } from './auth-services.ts';
import { type CodexConfig, codexHome, readCodexConfig } from './codex-config.ts';
import { selectsWorkloadIdentity } from './workload-identity.ts';

/** Where credentials for a registry are looked for. */
export interface SignInOptions extends OutboundOptions {
  /** Base URL of the registry: `https:`, or `http:` on this machine. */
  readonly registryUrl: string;
  /** Whether CODEX_ACCESS_TOKEN is the token of an agent. */
  readonly useAgentIdentity?: boolean;
  /** Values that replace those of codex's config.toml, in TOML. */
  readonly configOverrides?: Readonly<Record<string, string>>;
  readonly log: Logger;
  /** Keeps processes that renew the same login apart. Without it, a renewal logs a warning. */
  readonly fileLock?: FileLock | null;
}

/** Variables with credentials. A program that signs in removes them from its environment, so that its children do not inherit them. */
export const CREDENTIAL_VARIABLES = [
  'EXEC_SERVER_API_KEY',
  'CODEX_API_KEY',
  'CODEX_ACCESS_TOKEN',
  'OPENAI_FEDERATION_RULE_ID',
  'OPENAI_IDENTITY_TOKEN_FILE',
  'OPENAI_WORKLOAD_IDENTITY_CONTEXT',
] as const;

/**
 * Signs in at a registry with the first credential that is present: an agent's token if asked for, EXEC_SERVER_API_KEY, workload
 * identity, CODEX_API_KEY, a personal access token, the login of codex. Sends no secret unencrypted, except to this machine. Rejects
 * with CredentialError, with RegistryError when it may succeed later, or with TypeError for an invalid registry URL.
 */
export async function signIn(options: SignInOptions, signal: AbortSignal): Promise<RegistryAuth> {
  const { env, useAgentIdentity = false } = options;
  const url = parseRegistryUrl(options.registryUrl);
  const ownKey = variable(env, OWN_KEY);
  if (ownKey !== null && !useAgentIdentity) return fixedToken(ownKey, OWN_KEY);
  const home = codexHome(env);
  const config = await readCodexConfig(home, options.configOverrides);
  const setting: Setting = { ...options, url, home, config, services: new AuthServices(options), signal };
  return (
    (await agentIdentity(setting)) ??
    (await workloadIdentity(setting)) ??
    apiKey(setting) ??
    (await accessToken(setting)) ??
    (await storedLogin(setting))
  );
}

interface Setting extends SignInOptions {
  readonly url: URL;
  readonly home: string;
  readonly config: CodexConfig;
  readonly services: AuthServices;
  readonly signal: AbortSignal;
}

async function agentIdentity({ useAgentIdentity, env, config, services, signal }: Setting) {
  if (!useAgentIdentity) return null;
  const token = variable(env, ACCESS_TOKEN);
  if (token === null) throw new CredentialError(`${ACCESS_TOKEN} is required when ${AGENT_FLAG} is set`);
  if (selectsWorkloadIdentity(env)) {
    throw new CredentialError(`${AGENT_FLAG} cannot be combined with the variables of workload identity`);
  }
  if (isPersonal(token)) {
    throw new CredentialError(`${ACCESS_TOKEN} did not provide permitted Agent Identity authentication`);
  }
  if (config.forcedLoginMethod === 'api') {
    throw new CredentialError(
      'Agent Identity authentication is unavailable: forced_login_method permits only API keys',
    );
  }
  const { agentIdentityAuth } = await import('./agent-identity.ts');
  return agentIdentityAuth(token, { services, env, ...config }, signal);
}

async function workloadIdentity({ env, config, services }: Setting) {
  if (!selectsWorkloadIdentity(env)) return null;
  if (variable(env, CODEX_KEY) !== null) {
    throw new CredentialError(`${CODEX_KEY} cannot be combined with the variables of workload identity`);
  }
  if (config.forcedLoginMethod === 'api') {
    throw new CredentialError(
      'cannot sign in with workload identity: forced_login_method permits only API keys',
    );
  }
  const { WorkloadIdentity } = await import('./workload-identity.ts');
  const auth = new WorkloadIdentity({ services, env, ...config });
  await auth.headers();
  return auth;
}

function apiKey({ env, config, url }: Setting): RegistryAuth | null {
  const key = variable(env, CODEX_KEY);
  return key === null || config.forcedLoginMethod === 'chatgpt' ? null : openAiKey(key, CODEX_KEY, url);
}

async function accessToken(setting: Setting): Promise<RegistryAuth | null> {
  const token = variable(setting.env, ACCESS_TOKEN);
  if (token === null || setting.config.forcedLoginMethod === 'api') return null;
  if (isPersonal(token)) return personalAccessToken(token, setting);
  throw needsAgentFlag();
}

async function storedLogin(setting: Setting): Promise<RegistryAuth> {
  const { config, home, log, fileLock = null, url } = setting;
  if (config.store === 'keyring') throw missing(`${KEYRING}; ${KEYRING_FIX}`);
  if (config.store === 'ephemeral') throw missing('cli_auth_credentials_store is ephemeral');
  const file = new AuthFile(home, fileLock, log);
  const json = await readLogin(file);
  if (json === null) {
    throw missing(
      config.store === 'auto' ? `${file.path} does not exist, and ${KEYRING}; ${KEYRING_FIX}` : null,
    );
  }
  const mode = modeOf(json);
  const unusable = (why: string) => missing(`${file.path} is not used: ${why}`);
  if (config.forcedLoginMethod !== null && (config.forcedLoginMethod === 'api') !== (mode === 'apikey')) {
    throw unusable(`forced_login_method is ${config.forcedLoginMethod}`);
  }
  const { OPENAI_API_KEY: key, personal_access_token: token } = json;
  switch (mode) {
    case 'apikey':
      if (typeof key !== 'string' || key.trim() === '') throw unusable('it has no OPENAI_API_KEY');
      return openAiKey(key.trim(), `OPENAI_API_KEY of ${file.path}`, url);
    case 'personalAccessToken':
      if (typeof token !== 'string') throw unusable('it has no personal_access_token');
      return personalAccessToken(token.trim(), setting);
    case 'agentIdentity':
      throw needsAgentFlag();
    case 'chatgpt':
    case 'chatgptAuthTokens':
      return chatGptLogin(json, file, mode === 'chatgpt', setting, unusable);
    default:
      throw unusable(`its auth_mode ${JSON.stringify(mode)} is not supported`);
  }
}

async function chatGptLogin(
  json: AuthJson,
  file: AuthFile,
  renewable: boolean,
  { config, services, env, log }: Setting,
  unusable: (why: string) => CredentialError,
): Promise<RegistryAuth> {
  const { ChatGptLogin, chatGptTokensOf } = await import('./chatgpt-login.ts');
  const tokens = chatGptTokensOf(json);
  if (tokens === null) throw unusable('its tokens are missing or not valid');
  if (config.workspaces !== null && !config.workspaces.includes(tokens.identity ?? '')) {
    throw unusable('its account is not in forced_chatgpt_workspace_id');
  }
  return new ChatGptLogin(tokens, { file, services, env, log, renewable });
}

async function personalAccessToken(token: string, setting: Setting): Promise<RegistryAuth> {
  const { services, env, signal, config } = setting;
  const { personalAccessTokenAuth } = await import('./personal-access-token.ts');
  const { auth, accountId } = await personalAccessTokenAuth(token, services, env, signal);
  if (config.workspaces === null || config.workspaces.includes(accountId)) return auth;
  throw missing('the account of the personal access token is not in forced_chatgpt_workspace_id');
}

/** codex writes the file in place: a reader without the lock may see a part of it. */
async function readLogin(file: AuthFile): Promise<AuthJson | null> {
  try {
    return await file.read().catch(() => file.locked(() => file.read()));
  } catch (error) {
    throw missing((error as Error).message);
  }
}

function modeOf({ auth_mode: mode, personal_access_token: token, OPENAI_API_KEY: key }: AuthJson): unknown {
  if (mode != null) return mode;
  if (token != null) return 'personalAccessToken';
  return key == null ? 'chatgpt' : 'apikey';
}

/** A key of OpenAI is sent only to OpenAI and to this machine, as by the reference. */
function openAiKey(key: string, source: string, { hostname }: URL): RegistryAuth {
  if (isLoopbackHost(hostname) || /(?:^|\.)openai\.(?:com|org)$/i.test(hostname))
    return fixedToken(key, source);
  throw new CredentialError(
    `${source} is sent only to openai.com, openai.org and this machine. For the registry ${hostname} set ${OWN_KEY}`,
  );
}

function fixedToken(token: string, source: string): RegistryAuth {
  try {
    return bearerAuth(token);
  } catch (error) {
    throw new CredentialError(`${source}: ${(error as Error).message}`);
  }
}

const OWN_KEY = 'EXEC_SERVER_API_KEY';
const CODEX_KEY = 'CODEX_API_KEY';
const ACCESS_TOKEN = 'CODEX_ACCESS_TOKEN';
const AGENT_FLAG = '--use-agent-identity-auth';
const KEYRING =
  "codex keeps the login in the system's keyring (cli_auth_credentials_store), which exec-server does not read";
const KEYRING_FIX = 'set cli_auth_credentials_store = "file" and sign in again';

function isPersonal(token: string): boolean {
  return token.startsWith('at-');
}

function needsAgentFlag(): CredentialError {
  return new CredentialError(
    `remote exec-server registration requires ChatGPT authentication or API key authentication; Agent Identity auth requires ${AGENT_FLAG}`,
  );
}

/** Begins with the text of the reference. */
function missing(why: string | null): CredentialError {
  const advice = `remote exec-server registration requires ChatGPT authentication or API key authentication; run \`codex login\` or set ${CODEX_KEY}, or set ${OWN_KEY} for a registry of your own`;
  return new CredentialError(why === null ? advice : `${advice} (${why})`);
}
