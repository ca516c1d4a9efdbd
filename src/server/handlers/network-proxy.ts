import type { PolicyPeer } from '../../network/proxy/admission.ts';
import { MAX_POLICY_PROCESS_ID_BYTES } from '../../network/proxy/limits.ts';
import type { NetworkProxyOptions } from '../../network/proxy/network-proxy.ts';
import type { ProxyResources } from '../../network/proxy/proxy-resources.ts';
import { invalidParams } from '../../protocol/errors.ts';
import type { NetworkProxyLaunch } from '../../protocol/network.ts';
import type { PolicyDecisions } from '../sessions/policy-decisions.ts';
import type { PolicyQuestions } from '../sessions/policy-questions.ts';

/** What the proxies of a session's programs work with. */
export interface ProxyServices {
  /** Shared by the whole server; the ports that the server listens on are to be added to its own ports. */
  readonly proxies: ProxyResources;
  readonly policyQuestions: PolicyQuestions;
  readonly policyDecisions: PolicyDecisions;
}

/**
 * Everything that a proxy for a program is made from. Throws RpcError when the launch cannot be honoured as a whole; what its
 * settings say is checked when the proxy is made.
 */
export function proxyOptions(
  processId: string,
  launch: NetworkProxyLaunch,
  { proxies, policyQuestions, policyDecisions }: ProxyServices,
  serverEnv: Readonly<Record<string, string | undefined>>,
): NetworkProxyOptions {
  const { proxy: settings, policyDecisionTimeoutMs: timeoutMs = null } = launch;
  if (timeoutMs === 0) {
    throw invalidParams('params.networkProxy.policyDecisionTimeoutMs: expected more than 0');
  }
  const idBytes = Buffer.byteLength(processId);
  if (timeoutMs !== null && (idBytes === 0 || idBytes > MAX_POLICY_PROCESS_ID_BYTES)) {
    throw invalidParams(
      `params.processId: expected 1 to ${MAX_POLICY_PROCESS_ID_BYTES} bytes where policyDecisionTimeoutMs is given`,
    );
  }
  const upstream = UPSTREAM_VARIABLES.find((name) => (serverEnv[name] ?? '') !== '');
  if (settings.allowUpstreamProxy && upstream !== undefined) {
    throw invalidParams(
      `params.networkProxy.proxy.allowUpstreamProxy: not supported: the proxy in ${upstream} would resolve names again after they were checked`,
    );
  }
  const peer: PolicyPeer = {
    decided: (decision) => policyDecisions.report(processId, decision),
    ask:
      timeoutMs === null
        ? null
        : (question, signal) => policyQuestions.ask(processId, question, timeoutMs, signal),
  };
  return { settings, resources: proxies, peer };
}

/** What sends a server's own requests through a proxy. */
const UPSTREAM_VARIABLES = [
  'HTTP_PROXY',
  'http_proxy',
  'HTTPS_PROXY',
  'https_proxy',
  'ALL_PROXY',
  'all_proxy',
];
