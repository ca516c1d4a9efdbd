import { expect, test } from 'vitest';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import type { NetworkProxyLaunch } from '../../../../src/protocol/network.ts';
import { METHODS } from '../../../../src/protocol/registry.ts';
import { proxyOptions } from '../../../../src/server/handlers/network-proxy.ts';
import { PolicyDecisions } from '../../../../src/server/sessions/policy-decisions.ts';
import { PolicyQuestions } from '../../../../src/server/sessions/policy-questions.ts';
import { CLOSED_PROXY } from '../../../support/proxy-settings.ts';

const START = { processId: 'p', argv: ['/bin/true'], cwd: 'file:///', env: {}, tty: false };

/** As the schema passes it on. */
function launch(more: object = {}, proxy: object = {}): NetworkProxyLaunch {
  const parsed = METHODS['process/start'].params.parse({
    ...START,
    networkProxy: { proxy: { ...CLOSED_PROXY, ...proxy }, ...more },
  });
  return (parsed as { networkProxy: NetworkProxyLaunch }).networkProxy;
}

function scene() {
  const sent: unknown[] = [];
  const asked: unknown[] = [];
  const sink = {
    attached: true,
    saturated: false,
    sendBulk: (frame: Uint8Array) => sent.push(JSON.parse(String(frame))),
  };
  const peer = {
    call: async (_method: string, params: unknown) => {
      asked.push(params);
      return { decision: { type: 'allow' } };
    },
  };
  const services = {
    proxies: new ProxyResources(async () => []),
    policyQuestions: new PolicyQuestions(() => peer),
    policyDecisions: new PolicyDecisions(sink),
  };
  return { services, sent, asked };
}

test('decisions and questions carry the process', async () => {
  const { services, sent, asked } = scene();
  const { peer, settings } = proxyOptions('p', launch({ policyDecisionTimeoutMs: 1000 }), services, {});
  const question = { protocol: 'http', host: 'a.test', port: 80 } as const;
  expect(await peer.ask?.(question, new AbortController().signal)).toEqual({ type: 'allow' });
  expect(asked).toEqual([{ processId: 'p', request: question }]);
  peer.decided({ host: 'a.test' } as never);
  expect(sent).toEqual([{ method: 'network/policyDecision', params: { processId: 'p', host: 'a.test' } }]);
  expect(settings).toMatchObject({ reviewDomains: [], credentialMasking: false });
});

test('without a time to wait nobody is asked', () => {
  expect(proxyOptions('', launch(), scene().services, {}).peer.ask).toBeNull();
});

test.each([
  ['no time to wait', 'p', { policyDecisionTimeoutMs: 0 }, {}, {}],
  ['an empty process id', '', { policyDecisionTimeoutMs: 1 }, {}, {}],
  ['a long process id', 'é'.repeat(129), { policyDecisionTimeoutMs: 1 }, {}, {}],
  ['a proxy behind the proxy', 'p', {}, { allowUpstreamProxy: true }, { https_proxy: 'http://proxy.test' }],
])('%s is refused', (_name, processId, more, proxy, env) => {
  expect(() => proxyOptions(processId, launch(more, proxy), scene().services, env)).toThrow(
    expect.objectContaining({ code: -32602 }),
  );
});

test('an upstream proxy that is allowed but not there changes nothing', () => {
  const options = proxyOptions('p', launch({}, { allowUpstreamProxy: true }), scene().services, {
    HTTPS_PROXY: '',
  });
  expect(options.peer.ask).toBeNull();
});

test.each([
  [{ proxy: undefined }],
  [{ auditMetadata: null }],
  [{ environmentId: 5 }],
  [{ policyDecisionTimeoutMs: -1 }],
])('%o is no launch', (more) => {
  expect(() => launch(more)).toThrow();
});

test.each([
  [{ mode: 'x' }],
  [{ enabled: undefined }],
  [{ domains: { a: 'x' } }],
  [{ reviewDomains: null }],
  [{ credentialMasking: null }],
  [{ credentialProviders: null }],
  [{ credentialProviders: { x: { unknown: 1 } } }],
  [{ credentialProviders: { x: { env: 'A' } } }],
])('%o are no settings', (proxy) => {
  expect(() => launch({}, proxy)).toThrow();
});

test('what newer clients add is let pass', () => {
  expect(
    launch({ more: 1 }, { more: 1, domains: null, credentialProviders: { x: { env: ['A'] } } }),
  ).toBeDefined();
});
