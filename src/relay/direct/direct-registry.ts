import { TimeLimit } from '../../base/time-limit.ts';
import { MAX_REGISTRY_ANSWER_BYTES, REGISTER_TIMEOUT_MS } from '../limits.ts';
import { exchangeHttp, failureReason, isSuccess } from '../outbound/http-exchange.ts';
import { isLoopbackHost, type OutboundOptions } from '../outbound/proxy.ts';
import { callUrl, malformed, parse, RegistryError, refusal, textOf } from '../registry-client.ts';
import { secretsOf } from '../secrets.ts';
import type { SignableRequest } from './sigv4.ts';

/** Returns the headers that sign a request. Rejects with CredentialError. */
export type Sign = (
  request: SignableRequest,
  signal: AbortSignal,
) => Promise<Readonly<Record<string, string>>>;

/** A registry for the direct transport. */
interface DirectRegistryOptions extends OutboundOptions {
  readonly url: URL;
  readonly environmentId: string;
  readonly sign: Sign;
}

/**
 * Registers an executor for the direct transport and returns the websocket URL where it serves its client. Rejects with RegistryError.
 * Does not retry, as the reference.
 */
export function registerDirect(
  { url: base, environmentId, sign, env, tls }: DirectRegistryOptions,
  signal: AbortSignal,
): Promise<URL> {
  return TimeLimit.run(REGISTER_TIMEOUT_MS, signal, async (limited) => {
    const url = callUrl(base, environmentId, ACTION);
    const body = JSON.stringify({ transport: TRANSPORT });
    const headers = { 'content-type': 'application/json' };
    const signature = await sign({ method: 'POST', url, headers, body }, limited);
    const request = { url, method: 'POST', body, maxBytes: MAX_REGISTRY_ANSWER_BYTES } as const;
    const sent = { ...headers, ...signature, accept: '*/*' };
    const response = await exchangeHttp({ ...request, headers: sent }, { env, tls }, limited).catch(
      (cause: unknown) => {
        if (signal.aborted) throw cause;
        const why = limited.aborted
          ? `no answer within ${REGISTER_TIMEOUT_MS / 1_000} s`
          : failureReason(cause);
        throw new RegistryError(`cannot reach the registry ${base.host}: ${why}`, {
          retryable: false,
          cause,
        });
      },
    );
    const { status, text, truncated } = response;
    if (!isSuccess(status)) throw refusal(ACTION, base.host, response, secretsOf(signature));
    if (truncated) throw malformed(ACTION, 'it is too long');
    return registrationOf(text, environmentId);
  });
}

const ACTION = 'direct/register';
const TRANSPORT = 'direct_jsonrpc_v1';

function registrationOf(text: string, environmentId: string): URL {
  const answer = parse(ACTION, text);
  if (textOf(ACTION, answer, 'environment_id') !== environmentId) {
    throw malformed(ACTION, 'it is for another environment');
  }
  if (textOf(ACTION, answer, 'transport') !== TRANSPORT) {
    throw malformed(ACTION, `its transport is not ${TRANSPORT}`);
  }
  textOf(ACTION, answer, 'registration_id');
  const given = textOf(ACTION, answer, 'url');
  const url = URL.canParse(given) && !/\s/.test(given) ? new URL(given) : null;
  if (url === null || !/^wss?:$/.test(url.protocol)) throw malformed(ACTION, "'url' is not a websocket URL");
  // A signature is a credential: others on the network must not read it.
  if (url.protocol === 'ws:' && !isLoopbackHost(url.hostname)) {
    throw malformed(ACTION, "'url' does not begin with wss:// and is not on this machine");
  }
  url.username = '';
  url.password = '';
  url.hash = '';
  return url;
}
