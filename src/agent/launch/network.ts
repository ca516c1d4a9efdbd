import { TimeLimit } from '../../base/time-limit.ts';
import type {
  NetworkPolicyDecision,
  SandboxRequest,
  StartOptions,
  StartParams,
} from '../../environment/index.ts';
import { ExecToolError } from '../errors.ts';
import { HOST_DECISION_MS } from '../limits.ts';
import type { Approval, HostRequest, NetworkChoice } from './policy.ts';

/** Decides about a host until the signal aborts. */
type HostApproval = (host: Omit<HostRequest, 'processId'>, signal: AbortSignal) => Promise<Approval>;

/** Returns the policy's choice. Throws ExecToolError for a member that does not exist, because the executor would ignore it. */
export function checkedNetwork(choice: NetworkChoice | null | undefined): NetworkChoice | null {
  if (choice === null || choice === undefined) return null;
  refuseUnknownMembers('chooseNetwork', choice, CHOICE_MEMBERS);
  if (choice.proxy !== undefined) refuseUnknownMembers('chooseNetwork: proxy', choice.proxy, PROXY_MEMBERS);
  return choice;
}

function refuseUnknownMembers(where: string, value: object, members: Readonly<Record<string, true>>): void {
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(members, name));
  if (unknown === undefined) return;
  const known = Object.keys(members).join(', ');
  throw new ExecToolError(
    'exec_command',
    'invalidPolicy',
    `${where} has the unknown member '${unknown}'; the members are ${known}`,
  );
}

/** The part of a start that asks for a managed network. `asks` says whether the policy decides about hosts. */
export function networkParams(
  choice: NetworkChoice,
  sandbox: unknown,
  asks: boolean,
): Pick<StartParams, 'networkProxy' | 'enforceManagedNetwork' | 'sandbox'> {
  const networkProxy = {
    proxy: { ...CLOSED_PROXY, ...choice.proxy },
    ...(asks ? { policyDecisionTimeoutMs: HOST_DECISION_MS } : {}),
  };
  if (!isEnforced(choice)) return { networkProxy };
  return {
    networkProxy,
    enforceManagedNetwork: true,
    // Only a sandbox can enforce it.
    sandbox: (sandbox as SandboxRequest | null) ?? NETWORK_SANDBOX,
  };
}

export function isEnforced(choice: NetworkChoice | null): boolean {
  return choice !== null && (choice.enforce ?? true);
}

/**
 * Returns the handler for the policy requests of one program. Concurrent requests for the same host share one decision. The time for
 * a decision is limited, and it is no longer needed when the program ends.
 */
export function hostHandler(
  approve: HostApproval,
  ended: AbortSignal,
): NonNullable<StartOptions['onNetworkPolicyRequest']> {
  const open = new Map<string, Promise<NetworkPolicyDecision>>();
  return ({ protocol, host, port }, signal) => {
    const key = `${protocol} ${host} ${port}`;
    const earlier = open.get(key);
    if (earlier !== undefined) return earlier;
    const limit = new TimeLimit(HOST_DECISION_MS, [signal, ended]);
    const decision = approve({ protocol, host, port }, limit.signal)
      .then(decisionOf)
      .finally(() => {
        limit.end();
        open.delete(key);
      });
    open.set(key, decision);
    return decision;
  };
}

function decisionOf(approval: Approval): NetworkPolicyDecision {
  return approval.approved ? { type: 'allow' } : { type: 'deny', reason: approval.reason };
}

/** A proxy that allows no host. */
const CLOSED_PROXY = {
  enabled: true,
  enableSocks5: true,
  enableSocks5Udp: false,
  allowUpstreamProxy: false,
  dangerouslyAllowAllUnixSockets: false,
  mode: 'full',
  allowLocalBinding: false,
} as const;

const CHOICE_MEMBERS = { proxy: true, enforce: true } as const satisfies Record<keyof NetworkChoice, true>;

const PROXY_MEMBERS = {
  enabled: true,
  enableSocks5: true,
  enableSocks5Udp: true,
  allowUpstreamProxy: true,
  dangerouslyAllowAllUnixSockets: true,
  mode: true,
  allowLocalBinding: true,
  domains: true,
  unixSockets: true,
  reviewDomains: true,
  credentialMasking: true,
  credentialProviders: true,
} as const satisfies Record<keyof NonNullable<NetworkChoice['proxy']>, true>;

/** Restricts the network and nothing else. */
const NETWORK_SANDBOX: SandboxRequest = {
  permissions: { type: 'managed', file_system: { type: 'unrestricted' }, network: 'restricted' },
  windowsSandboxLevel: 'disabled',
};
