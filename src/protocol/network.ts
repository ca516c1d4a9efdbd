import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { list } from './list.ts';
import { namedValues } from './named-values.ts';
import { Argument, doc, Expression, Identifier, Name, optional, Pattern, Uint64, Url } from './scalars.ts';

const Port = once(() =>
  z.number().check(
    z.refine((value) => Number.isInteger(value) && value >= 0 && value <= 65_535, {
      error: 'expected an integer from 0 to 65535',
    }),
  ),
);

const CredentialProvider = once(() =>
  z.strictObject({
    env: doc(z._default(list(Name()), []), 'Environment variables whose values are credentials.'),
    patterns: doc(
      z._default(list(Expression()), []),
      'Regular expressions that match the credentials, without lookaround, nested classes and back references. The mask has the same form.',
    ),
    url_prefixes: doc(
      z._default(list(Url()), []),
      'Where the credentials may be sent: `[https://][*.]host[:port][/path]`, or `http://` for a host on this machine.',
    ),
    url_prefix_from_env: doc(optional(Name()), 'A variable of the program that holds one more URL prefix.'),
    auth: doc(
      z._default(list(z.enum(['bearer', 'token', 'basic', 'header'])), []),
      'How the credentials are sent. `bearer` when empty.',
    ),
    header: doc(optional(Name()), 'Name of the header. Only for `header`.'),
    prefix: doc(optional(Argument()), 'Text before the credential in that header.'),
  }),
);

const ProxySettings = once(() =>
  z.object({
    enabled: doc(z.boolean(), 'Must be true. Leave out `networkProxy` to run without a proxy.'),
    enableSocks5: doc(z.boolean(), 'Listen for SOCKS5 besides HTTP.'),
    enableSocks5Udp: doc(z.boolean(), 'Relay datagrams of SOCKS5 clients outside a network sandbox.'),
    allowUpstreamProxy: doc(
      z.boolean(),
      'Refused where the server itself uses a proxy. No effect elsewhere.',
    ),
    dangerouslyAllowAllUnixSockets: doc(
      z.boolean(),
      'No effect on Linux, where the proxy forwards to no unix socket.',
    ),
    mode: doc(z.enum(['limited', 'full']), '`limited` allows GET, HEAD and OPTIONS over plain HTTP only.'),
    allowLocalBinding: doc(
      z.boolean(),
      'Treat local and private addresses like any other. Without it they are denied as `not_allowed_local`, even when a name that leads to them is allowed.',
    ),
    domains: doc(
      optional(namedValues(z.enum(['none', 'allow', 'deny']))),
      'Host patterns: `a.example`, `*.example` (below), `**.example` (it and below), `*`, or with `*` anywhere.',
    ),
    unixSockets: doc(
      optional(namedValues(z.enum(['none', 'allow', 'deny']))),
      'Paths of unix sockets. No effect on Linux.',
    ),
    reviewDomains: doc(
      z._default(list(Pattern()), []),
      'Host patterns that require a decision of the client although they are allowed.',
    ),
    credentialMasking: doc(
      z._default(z.boolean(), false),
      'Give the program masks instead of its credentials. The proxy restores them in requests to the permitted hosts.',
    ),
    credentialProviders: doc(
      z._default(namedValues(CredentialProvider()), {}),
      'Credentials to mask besides those of GitHub and OpenAI. The keys are names for messages.',
    ),
  }),
);

/** A network proxy for one program. */
export const NetworkProxy = once(() =>
  z.object({
    proxy: ProxySettings(),
    auditMetadata: doc(z._default(namedValues(z.unknown()), {}), 'Accepted but not used.'),
    environmentId: doc(optional(Identifier()), 'Accepted but not used.'),
    executionId: doc(optional(Identifier()), 'Accepted but not used.'),
    policyDecisionTimeoutMs: doc(
      optional(Uint64()),
      'Ask the client about hosts that no pattern allows, and wait this long plus five seconds for its decision.',
    ),
  }),
);

/** A network proxy that already runs, as the client describes it. */
export const ManagedNetwork = once(() =>
  z.object({
    loopbackPorts: z._default(list(Port()), []),
    allowLocalBinding: z._default(z.boolean(), false),
  }),
);

const Protocol = once(() => z.enum(['http', 'https_connect', 'socks5_tcp', 'socks5_udp']));

export const NetworkPolicyRequestParams = once(() =>
  z.object({
    processId: Identifier(),
    request: doc(
      z.object({
        protocol: doc(Protocol(), 'The protocol that the program used.'),
        host: doc(z.string(), 'A name or an address, in lower case.'),
        port: Port(),
      }),
      'The protocol, the host (a name or an address in lower case) and the port that the program requested.',
    ),
  }),
);

const Reason = once(() => doc(Argument(), 'At most 1024 bytes without control characters.'));

export const NetworkPolicyRequestResult = once(() =>
  z.object({
    decision: doc(
      z.discriminatedUnion('type', [
        z.object({ type: z.literal('allow') }),
        z.object({ type: z.literal('deny'), reason: Reason() }),
        z.object({ type: z.literal('ask'), reason: Reason() }),
      ]),
      '`ask` blocks like `deny`, but is reported as `ask`. Reasons have at most 1024 bytes and no control characters.',
    ),
  }),
);

export const NetworkPolicyDecisionParams = once(() =>
  z.object({
    processId: Identifier(),
    timestamp: doc(z.string(), 'RFC 3339, UTC, with milliseconds.'),
    scope: doc(
      z.enum(['domain', 'non_domain']),
      'Whether the host or another property of the request determined the decision.',
    ),
    decision: z.enum(['allow', 'deny', 'ask']),
    source: z.enum(['baseline_policy', 'mode_guard', 'proxy_state', 'decider']),
    reason: doc(z.string(), '`allow`, or the reason for any other decision.'),
    protocol: Protocol(),
    host: z.string(),
    port: Port(),
    method: doc(z.optional(z.string()), 'The HTTP method; absent for SOCKS5.'),
    client: doc(z.optional(z.string()), 'Source address and port of the program.'),
    policyOverride: doc(z.boolean(), 'Whether the client allowed a host that no pattern allows.'),
    droppedBefore: doc(
      z.optional(Uint64()),
      'Number of earlier decisions about this process that were not reported because the client did not read.',
    ),
  }),
);

export type NetworkProxyLaunch = z.output<ReturnType<typeof NetworkProxy>>;
export type NetworkProxySettings = z.output<ReturnType<typeof ProxySettings>>;
export type NetworkPolicyRequest = z.output<ReturnType<typeof NetworkPolicyRequestParams>>['request'];
export type NetworkPolicyDecision = z.output<ReturnType<typeof NetworkPolicyRequestResult>>['decision'];
export type NetworkPolicyDecisionEvent = z.output<ReturnType<typeof NetworkPolicyDecisionParams>>;
