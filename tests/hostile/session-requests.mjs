import { base64, deepObject } from './texts.mjs';

const KIB = 1024;
const MIB = 1024 * 1024;

function request(fixture, more) {
  return { requestId: 'r', method: 'GET', url: `${fixture.web}/`, ...more };
}

/** Requests of the session, the environment and `http/*`. See `requests.mjs` for the form. */
export const SESSION_REQUESTS = {
  initialize: [
    {
      name: 'long texts',
      handshake: false,
      requests: () => [
        { clientName: 'n'.repeat(3 * MIB), resumeSessionId: 'x' },
        { clientName: '\u202e\u0000'.repeat(MIB / 2), resumeSessionId: '\u0301'.repeat(MIB / 2) },
        { clientName: deepObject() },
        { clientName: 'n'.repeat(3 * MIB) },
      ],
    },
  ],
  'environment/info': 'takes no params',
  'environment/status': 'takes no params',
  'http/request': [
    {
      name: 'long URLs',
      requests: (fixture) =>
        [
          `${fixture.web}/${'\u0301'.repeat(60_000)}`,
          `${fixture.web}/${'%'.repeat(65_000)}`,
          `${fixture.web}/${'../a/'.repeat(13_000)}`,
          `${fixture.web}/?${'a=\u00fc&'.repeat(16_000)}`,
          `http://${'a\u0301'.repeat(32_000)}/`,
          `http://${'\u00fc\u4e2d'.repeat(32_000)}/`,
          `http://${'\ufdfa'.repeat(65_000)}/`,
          `http://${'a.'.repeat(32_000)}/`,
          `http://${'u'.repeat(30_000)}:${'p'.repeat(30_000)}@127.0.0.1:1/`,
          `http://[${':'.repeat(65_000)}]/`,
          `http://${'a\u0301'.repeat(100 * KIB)}/`,
        ].map((url) => request(fixture, { url, timeoutMs: 3_000 })),
    },
    {
      name: 'many headers',
      requests: (fixture) => [
        request(fixture, {
          headers: Array.from({ length: 4_000 }, (_, index) => ({ name: `x-${index}`, value: 'v' })),
        }),
        request(fixture, { headers: Array(4_000).fill({ name: 'x', value: 'v'.repeat(900) }) }),
        request(fixture, { headers: [{ name: 'x', value: 'v'.repeat(3 * MIB) }] }),
        request(fixture, { headers: [{ name: 'x'.repeat(3 * MIB), value: 'v' }] }),
        request(fixture, { headers: [{ name: 'x', value: '', valueEnvVar: 'V'.repeat(3 * MIB) }] }),
        request(fixture, { method: 'G'.repeat(3 * MIB) }),
      ],
    },
    {
      name: 'the largest body',
      requests: (fixture) => [request(fixture, { method: 'POST', bodyBase64: base64(47 * MIB) })],
      answer: 'result',
    },
    {
      name: 'a large head of the response',
      requests: (fixture) => [request(fixture, { url: `${fixture.web}/headers` })],
      answer: 'result',
    },
    {
      name: 'a redirect to a hostile URL',
      requests: (fixture) => [request(fixture, { url: `${fixture.web}/redirect` })],
    },
    {
      name: 'a large body of the response',
      requests: (fixture) => [request(fixture, {})],
      answer: 'result',
    },
  ],
  'http/cancel': [
    {
      name: 'long ids',
      requests: () => [{ requestId: 'r'.repeat(64 * KIB) }, { requestId: 'r'.repeat(3 * MIB) }],
    },
    {
      name: 'the most requests',
      before: async (client, fixture) => {
        const url = `${fixture.web}/never`;
        for (let index = 0; index < 500; index++)
          void client.call('http/request', request(fixture, { url })).catch(() => {});
        await client.settled();
      },
      requests: () => [{ requestId: 'r' }],
      answer: 'result',
    },
  ],
  'http/consumed': [
    {
      name: 'long ids',
      requests: () => [
        { requestId: 'r'.repeat(64 * KIB), bytes: 2 ** 53 },
        { requestId: 'r'.repeat(3 * MIB), bytes: 1 },
      ],
    },
  ],
};
