import { base64 } from './texts.mjs';

const KIB = 1024;
const MIB = 1024 * 1024;

/** Connects to the fixture's web server as the streams `s0`, `s1` and so on. */
function connected(count) {
  return async (client, fixture) => {
    const port = Number(new URL(fixture.web).port);
    for (let index = 0; index < count; index++) {
      await client.call('tcp/connect', { streamId: `s${index}`, port });
    }
  };
}

/** Prints a megabyte of an escape sequence on a large terminal. */
function printed(sequence) {
  const script = `u=$(printf '${sequence}%.0s' $(seq 400)); i=0; while [ $i -lt 600 ]; do printf '%s' "$u"; i=$((i+1)); done`;
  return async (client) => {
    await client.call('process/start', {
      processId: 'p',
      argv: ['/bin/bash', '-c', script],
      cwd: 'file:///',
      env: { PATH: '/usr/bin:/bin' },
      tty: true,
      size: { rows: 200, cols: 500 },
    });
    await client.call('process/wait', { processId: 'p' });
  };
}

function longIds(name, more = {}) {
  return {
    name: 'long ids',
    requests: () => [
      { [name]: 'p'.repeat(64 * KIB), ...more },
      { [name]: 'p'.repeat(3 * MIB), ...more },
    ],
  };
}

/** Requests by which clients share processes and use TCP streams. See `requests.mjs` for the form. */
export const SHARING_REQUESTS = {
  'process/attach': [
    {
      name: 'long texts',
      requests: () => [
        { ref: 'r'.repeat(3 * MIB) },
        { name: 'n'.repeat(3 * MIB) },
        { processId: 'p'.repeat(3 * MIB), sessionId: 's'.repeat(3 * MIB) },
        { ref: '\u0301'.repeat(KIB) },
      ],
    },
  ],
  'process/detach': [longIds('processId')],
  'process/forget': [longIds('processId')],
  'process/setLifetime': [longIds('processId', { lifetime: { type: 'detached' } })],
  'process/screen': [
    {
      name: 'output that takes minutes to draw',
      before: printed('\\033[2J'),
      requests: () => [{ processId: 'p' }],
      answer: 'result',
    },
    {
      name: 'output that switches between screens',
      before: printed('\\033[?1049h\\033[?1049l'),
      requests: () => [{ processId: 'p' }],
      answer: 'result',
    },
    longIds('processId'),
  ],
  'recordings/list': [longIds('after')],
  'recordings/read': [
    longIds('recordingId'),
    { name: 'a large offset', requests: () => [{ recordingId: 'r', offset: 2 ** 53, maxBytes: 2 ** 53 }] },
  ],
  'tcp/connect': [
    {
      name: 'long hosts',
      requests: () =>
        [
          'a\u0301'.repeat(500),
          '\ufdfa'.repeat(KIB),
          'a.'.repeat(500),
          ':'.repeat(KIB),
          'x'.repeat(3 * MIB),
        ].map((host, index) => ({ streamId: `h${index}`, host, port: 1 })),
    },
    longIds('streamId', { port: 1 }),
  ],
  'tcp/data': [
    {
      name: 'the largest message',
      before: connected(1),
      requests: () => [
        { streamId: 's0', chunk: base64(47 * MIB) },
        { streamId: 's0', chunk: `${base64(47 * MIB)}QQ=A` },
      ],
    },
    longIds('streamId', { chunk: '' }),
  ],
  'tcp/end': [longIds('streamId')],
  'tcp/close': [longIds('streamId')],
  'process/consumed': [longIds('processId', { seq: 2 ** 53 })],
  'tcp/consumed': [longIds('streamId', { bytes: 2 ** 53 })],
  'ports/watch': [longIds('watchId')],
  'ports/unwatch': [longIds('watchId')],
};
