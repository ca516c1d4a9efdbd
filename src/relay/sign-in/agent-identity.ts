import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { decodeBase64 } from '../../base/base64.ts';
import { AGENT_TASK_ATTEMPTS, AUTH_SERVICE_TIMEOUT_MS } from '../limits.ts';
import { isSuccess } from '../outbound/http-exchange.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { type AuthHeaders, accountHeaders, CredentialError, type RegistryAuth } from '../registry-auth.ts';
import { type AgentClaims, readAgentClaims, verifyAgentToken } from './agent-token.ts';
import { AuthServiceError, type AuthServices, parseObject, serviceUrl, variable } from './auth-services.ts';
import { openAiService } from './codex-config.ts';
import { openSealedBox } from './sealed-box.ts';

/** How an agent signs in. Tests pass a clock. */
interface AgentSignIn {
  readonly services: AuthServices;
  readonly env: OutboundOptions['env'];
  /** `chatgpt_base_url` of codex's configuration. */
  readonly chatgptBaseUrl: string;
  /** The accounts that the agent may belong to; null for any. */
  readonly workspaces: readonly string[] | null;
  readonly now?: () => number;
}

/**
 * Signs in with an agent's token, which contains its private key. Checks the token, registers a task, and signs each request for the
 * task. The task and the key are kept in memory. Rejects with CredentialError.
 */
export async function agentIdentityAuth(
  token: string,
  options: AgentSignIn,
  signal: AbortSignal,
): Promise<RegistryAuth> {
  const { services, env, workspaces, now = Date.now } = options;
  try {
    const claims = readAgentClaims(token);
    if (workspaces !== null && !workspaces.includes(claims.accountId)) {
      throw new CredentialError('its account is not in forced_chatgpt_workspace_id');
    }
    const urls = agentServiceUrls(env, options.chatgptBaseUrl, claims.runtimeId);
    await verifyAgentToken(token, { services, keysUrl: urls.keys, now }, signal);
    const key = new AgentKey(claims);
    const taskId = await registerTask(key, { services, url: urls.tasks, now }, signal);
    return new AgentIdentity(key, taskId, now);
  } catch (error) {
    if (!(error instanceof CredentialError || error instanceof AuthServiceError)) throw error;
    throw new CredentialError(`Agent Identity authentication is unavailable: ${error.message}`);
  }
}

class AgentIdentity implements RegistryAuth {
  readonly #key: AgentKey;
  readonly #taskId: string;
  readonly #now: () => number;
  readonly #account: AuthHeaders;

  constructor(key: AgentKey, taskId: string, now: () => number) {
    this.#key = key;
    this.#taskId = taskId;
    this.#now = now;
    const { accountId: chatgptAccountId, fedramp } = key.claims;
    this.#account = accountHeaders({ chatgptAccountId, fedramp });
  }

  headers(): AuthHeaders {
    const { runtimeId } = this.#key.claims;
    const timestamp = timestampOf(this.#now());
    const assertion = {
      agent_runtime_id: runtimeId,
      signature: this.#key.sign(`${runtimeId}:${this.#taskId}:${timestamp}`),
      task_id: this.#taskId,
      timestamp,
    };
    const text = Buffer.from(JSON.stringify(assertion)).toString('base64url');
    return { authorization: `AgentAssertion ${text}`, ...this.#account };
  }
}

/** The private key of an agent. */
class AgentKey {
  readonly claims: AgentClaims;
  readonly #key: KeyObject;

  /** Throws CredentialError when the token does not contain an Ed25519 key. */
  constructor(claims: AgentClaims) {
    this.claims = claims;
    const der = decodeBase64(claims.privateKey);
    try {
      if (der === null) throw new TypeError('not base64');
      this.#key = createPrivateKey({ key: Buffer.from(der), format: 'der', type: 'pkcs8' });
    } catch {
      throw new CredentialError('agent_private_key is not a PKCS #8 key');
    }
    if (this.#key.asymmetricKeyType !== 'ed25519') {
      throw new CredentialError('agent_private_key is not an Ed25519 key');
    }
  }

  sign(text: string): string {
    return sign(null, Buffer.from(text), this.#key).toString('base64');
  }

  /** Decrypts a text that was sealed for this key. */
  async open(sealed: Uint8Array): Promise<string> {
    const { d: seed = '' } = this.#key.export({ format: 'jwk' });
    return (await openSealedBox(Buffer.from(seed, 'base64url'), sealed)).toString();
  }
}

interface TaskService {
  readonly services: AuthServices;
  readonly url: URL;
  readonly now: () => number;
}

/** Registers a task and returns its id. Retries when the service is not available. */
async function registerTask(key: AgentKey, task: TaskService, signal: AbortSignal): Promise<string> {
  const { services, url, now } = task;
  for (let attempt = 1; ; attempt++) {
    const timestamp = timestampOf(now());
    const body = JSON.stringify({ timestamp, signature: key.sign(`${key.claims.runtimeId}:${timestamp}`) });
    const headers = { 'content-type': 'application/json' };
    const request = { url, method: 'POST', headers, body, timeoutMs: AUTH_SERVICE_TIMEOUT_MS } as const;
    try {
      const { status, text } = await services.send({ ...request, followRedirects: true }, signal);
      if (isSuccess(status)) return await taskIdOf(text, key);
      const refusal = `${url.host} answered the registration of a task with HTTP ${status}`;
      if (status !== 429 && status < 500) throw new CredentialError(refusal);
      throw new AuthServiceError(refusal);
    } catch (error) {
      if (!(error instanceof AuthServiceError) || attempt === AGENT_TASK_ATTEMPTS) throw error;
    }
  }
}

async function taskIdOf(text: string, key: AgentKey): Promise<string> {
  const answer = parseObject(text) ?? {};
  const plain = answer.task_id ?? answer.taskId;
  if (typeof plain === 'string') return plain;
  const sealed = answer.encrypted_task_id ?? answer.encryptedTaskId;
  const bytes = typeof sealed === 'string' ? decodeBase64(sealed) : null;
  if (bytes === null) throw new CredentialError('the response to the registration of a task has no task id');
  try {
    return await key.open(bytes);
  } catch {
    throw new CredentialError('the task id is not encrypted for this agent');
  }
}

/** The services of an agent. */
interface AgentServiceUrls {
  readonly keys: URL;
  readonly tasks: URL;
}

/**
 * Finds the services. A `chatgpt_base_url` that is not OpenAI's would let a configuration file choose who checks the token. Such a URL
 * needs both variables, and one of them must agree.
 */
function agentServiceUrls(
  env: OutboundOptions['env'],
  configured: string,
  runtimeId: string,
): AgentServiceUrls {
  const base = withoutSlash(configured.trim());
  const keysBase = variable(env, KEYS_VARIABLE);
  const tasksBase = variable(env, TASKS_VARIABLE);
  const service = openAiService(base);
  const agrees = keysBase !== null && withoutSlash(keysBase) === base && tasksBase !== null;
  if (service === null && !agrees) {
    throw new CredentialError('chatgpt_base_url is not an address of OpenAI');
  }
  const defaultTasks = service === 'staging' ? STAGING_TASKS_BASE : DEFAULT_TASKS_BASE;
  const keys = withoutSlash(keysBase ?? base);
  const keysPath = keys.includes('/backend-api') ? '/wham/agent-identities/jwks' : '/agent-identities/jwks';
  const tasks = withoutSlash(tasksBase ?? defaultTasks);
  return {
    keys: serviceUrl(`${keys}${keysPath}`, keysBase === null ? 'chatgpt_base_url' : KEYS_VARIABLE),
    tasks: serviceUrl(`${tasks}/v1/agent/${encodeURIComponent(runtimeId)}/task/register`, TASKS_VARIABLE),
  };
}

const KEYS_VARIABLE = 'CODEX_AGENT_IDENTITY_JWKS_BASE_URL';
const TASKS_VARIABLE = 'CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL';
const DEFAULT_TASKS_BASE = 'https://auth.openai.com/api/accounts';
const STAGING_TASKS_BASE = 'https://auth.api.openai.org/api/accounts';

function withoutSlash(text: string): string {
  return text.replace(/\/+$/, '');
}

/** Whole seconds in UTC. */
function timestampOf(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`;
}
