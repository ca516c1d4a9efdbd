import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { namedValues } from './named-values.ts';
import { doc, Identifier, optional, Uint64 } from './scalars.ts';

const Port = once(() =>
  z.number().check(
    z.refine((value) => Number.isInteger(value) && value >= 0 && value <= 65_535, {
      error: 'expected an integer from 0 to 65535',
    }),
  ),
);

const CredentialProvider = once(() =>
  z.strictObject({
    env: doc(z._default(z.array(z.string()), []), 'Variables whose values are credentials.'),
    patterns: doc(
      z._default(z.array(z.string()), []),
      'What they look like, as regular expressions without lookaround, classes in classes and back references. The mask looks the same.',
    ),
    url_prefixes: doc(
      z._default(z.array(z.string()), []),
      'Where they may be sent: `[https://][*.]host[:port][/path]`, or `http://` for a host of this machine.',
    ),
    url_prefix_from_env: doc(optional(z.string()), 'A variable of the program with one more of those.'),
    auth: doc(
      z._default(z.array(z.enum(['bearer', 'token', 'basic', 'header'])), []),
      'How they are sent; `bearer` when empty.',
    ),
    header: doc(optional(z.string()), 'The header, for `header` and nothing else.'),
    prefix: doc(optional(z.string()), 'What stands in that header before the credential.'),
  }),
);

const ProxySettings = once(() =>
  z.object({
    enabled: doc(z.boolean(), 'False is refused: leave `networkProxy` out to run without one.'),
    enableSocks5: doc(z.boolean(), 'Listen for SOCKS5 besides HTTP.'),
    enableSocks5Udp: doc(z.boolean(), 'Relay datagrams of SOCKS5 clients outside a network sandbox.'),
    allowUpstreamProxy: doc(
      z.boolean(),
      'Refused where the server itself is told to use a proxy; without effect elsewhere.',
    ),
    dangerouslyAllowAllUnixSockets: doc(
      z.boolean(),
      'Without effect on Linux, which forwards to no unix socket.',
    ),
    mode: doc(z.enum(['limited', 'full']), '`limited` lets GET, HEAD and OPTIONS of plain HTTP through.'),
    allowLocalBinding: doc(z.boolean(), 'Local and private addresses count as any other.'),
    domains: doc(
      optional(namedValues(z.enum(['none', 'allow', 'deny']))),
      'Host patterns: `a.example`, `*.example` (below), `**.example` (it and below), `*`, or with `*` anywhere.',
    ),
    unixSockets: doc(
      optional(namedValues(z.enum(['none', 'allow', 'deny']))),
      'Paths; without effect on Linux.',
    ),
    reviewDomains: doc(
      z._default(z.array(z.string()), []),
      'Host patterns that are put to the client although they are allowed.',
    ),
    credentialMasking: doc(
      z._default(z.boolean(), false),
      'The program gets masks for its credentials; the proxy turns them back in requests to where they belong.',
    ),
    credentialProviders: doc(
      z._default(namedValues(CredentialProvider()), {}),
      'Credentials to mask besides those of GitHub and OpenAI, by a name for messages.',
    ),
  }),
);

/** A proxy of its own for one program. */
export const NetworkProxy = once(() =>
  z.object({
    proxy: ProxySettings(),
    auditMetadata: doc(z._default(namedValues(z.unknown()), {}), 'Accepted and not used.'),
    environmentId: doc(optional(z.string()), 'Accepted and not used.'),
    executionId: doc(optional(z.string()), 'Accepted and not used.'),
    policyDecisionTimeoutMs: doc(
      optional(Uint64()),
      'Ask the client about hosts that no pattern allows, and wait this long and five seconds more.',
    ),
  }),
);

/** What a client knows of a proxy that runs already. */
export const ManagedNetwork = once(() =>
  z.object({
    loopbackPorts: z._default(z.array(Port()), []),
    allowLocalBinding: z._default(z.boolean(), false),
  }),
);

const Protocol = once(() => z.enum(['http', 'https_connect', 'socks5_tcp', 'socks5_udp']));

export const NetworkPolicyRequestParams = once(() =>
  z.object({
    processId: Identifier(),
    request: doc(
      z.object({
        protocol: doc(Protocol(), 'How the program asked.'),
        host: doc(z.string(), 'A name or an address, in lower case.'),
        port: Port(),
      }),
      'How the program asked, and for what: a name or an address in lower case, and a port.',
    ),
  }),
);

const Reason = once(() => doc(z.string(), 'At most 1024 bytes without control characters.'));

export const NetworkPolicyRequestResult = once(() =>
  z.object({
    decision: doc(
      z.discriminatedUnion('type', [
        z.object({ type: z.literal('allow') }),
        z.object({ type: z.literal('deny'), reason: Reason() }),
        z.object({ type: z.literal('ask'), reason: Reason() }),
      ]),
      '`ask` blocks like `deny` and is reported as what it is. Reasons have at most 1024 bytes and no control characters.',
    ),
  }),
);

export const NetworkPolicyDecisionParams = once(() =>
  z.object({
    processId: Identifier(),
    timestamp: doc(z.string(), 'RFC 3339, UTC, with milliseconds.'),
    scope: doc(
      z.enum(['domain', 'non_domain']),
      'Whether the host decided, or something else about the request.',
    ),
    decision: z.enum(['allow', 'deny', 'ask']),
    source: z.enum(['baseline_policy', 'mode_guard', 'proxy_state', 'decider']),
    reason: doc(z.string(), '`allow`, or why it was not simply allowed.'),
    protocol: Protocol(),
    host: z.string(),
    port: Port(),
    method: doc(z.optional(z.string()), 'The HTTP method; absent for SOCKS5.'),
    client: doc(z.optional(z.string()), 'Address and port that the program connected from.'),
    policyOverride: doc(z.boolean(), 'Whether the client allowed what no pattern allows.'),
    droppedBefore: doc(
      z.optional(Uint64()),
      'How many earlier decisions about this process were not reported because the client did not read.',
    ),
  }),
);

export type NetworkProxyLaunch = z.output<ReturnType<typeof NetworkProxy>>;
export type NetworkProxySettings = z.output<ReturnType<typeof ProxySettings>>;
export type NetworkPolicyRequest = z.output<ReturnType<typeof NetworkPolicyRequestParams>>['request'];
export type NetworkPolicyDecision = z.output<ReturnType<typeof NetworkPolicyRequestResult>>['decision'];
export type NetworkPolicyDecisionEvent = z.output<ReturnType<typeof NetworkPolicyDecisionParams>>;
