import { IDLE_PROGRAM } from './fixture.mjs';
import {
  base64,
  HOSTILE_GLOBS,
  HOSTILE_LONG_GLOBS,
  HOSTILE_PATH_GLOBS,
  hostileUris,
  TOO_MANY_GLOBS,
} from './texts.mjs';

const KIB = 1024;
const MIB = 1024 * 1024;
const LONG_ID = 'p'.repeat(64 * KIB);

let started = 0;

/** A start that succeeds unless `more` prevents it. */
function start(more) {
  return { processId: `p-${started++}`, argv: ['/bin/true'], cwd: 'file:///', env: {}, tty: false, ...more };
}

function urisOf(fixture) {
  return hostileUris(fixture.uri('scratch'));
}

/** As many arguments or variables as the kernel accepts for one program. */
const MANY_ARGUMENTS = ['/bin/true', ...Array(60_000).fill('x')];
const LONG_ARGUMENTS = ['/bin/sleep', '1000', ...Array(15).fill('x'.repeat(127 * KIB))];
const MANY_VARIABLES = Object.fromEntries(
  Array.from({ length: 8_000 }, (_, index) => [`VARIABLE_${index}`, 'x']),
);

/** A sandbox that allows reading everything, with more entries. */
function sandbox(entries, more = {}) {
  const readable = { path: { type: 'special', value: { kind: 'root' } }, access: 'read' };
  const permissions = {
    type: 'managed',
    file_system: { type: 'restricted', entries: [readable, ...entries] },
    network: 'restricted',
  };
  return { permissions, windowsSandboxLevel: 'disabled', ...more };
}

function denied(pattern) {
  return { path: { type: 'glob_pattern', pattern }, access: 'deny' };
}

function pathEntry(path, access = 'write') {
  return { path: { type: 'path', path }, access };
}

/** A proxy with every list filled. */
function proxy(more) {
  return {
    proxy: {
      enabled: true,
      enableSocks5: true,
      enableSocks5Udp: false,
      allowUpstreamProxy: false,
      dangerouslyAllowAllUnixSockets: false,
      mode: 'full',
      allowLocalBinding: true,
      ...more,
    },
  };
}

/** Starts programs that wait until the connection ends, as `p0`, `p1` and so on. */
function running(count, more = {}) {
  return async (client) => {
    for (let index = 0; index < count; index++) {
      await client.call('process/start', start({ processId: `p${index}`, argv: IDLE_PROGRAM, ...more }));
    }
  };
}

/** Runs a shell command as `p` until it has ended. */
function ran(script) {
  return async (client) => {
    await client.call('process/start', start({ processId: 'p', argv: ['/bin/sh', '-c', script] }));
    await client.call('process/wait', { processId: 'p' });
  };
}

/** Many small chunks of output: each line is one write. */
const MANY_CHUNKS = ran('i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done');
const MUCH_OUTPUT = ran('head -c 4000000 /dev/zero; head -c 4000000 /dev/zero >&2');

/** A request whose only unusual property is a long id. */
function longId(more = {}) {
  return {
    name: 'long ids',
    requests: () => [
      { processId: LONG_ID, ...more },
      { processId: 'p'.repeat(3 * MIB), ...more },
    ],
  };
}

/** Requests of `process/*` and `command/exec*`. See `requests.mjs` for the form. */
export const PROCESS_REQUESTS = {
  'process/start': [
    { name: 'hostile URIs', requests: (fixture) => urisOf(fixture).map((cwd) => start({ cwd })) },
    { name: 'many arguments', requests: () => [start({ argv: MANY_ARGUMENTS })], answer: 'result' },
    { name: 'long arguments', requests: () => [start({ argv: LONG_ARGUMENTS })], answer: 'result' },
    {
      name: 'arguments that no program takes',
      requests: () => [
        start({ argv: Array(250_000).fill('/bin/true') }),
        start({ argv: ['/bin/true', 'x'.repeat(3 * MIB)] }),
        start({ argv: ['x'.repeat(3 * MIB)] }),
        start({ argv: ['/bin/true', '\0'.repeat(MIB)] }),
        start({ arg0: 'x'.repeat(3 * MIB) }),
      ],
    },
    { name: 'many variables', requests: () => [start({ env: MANY_VARIABLES })], answer: 'result' },
    {
      name: 'variables that no program takes',
      requests: () => [
        start({ env: Object.fromEntries(Array.from({ length: 32_000 }, (_, i) => [`V${i}`, ''])) }),
        start({ env: { V: 'x'.repeat(3 * MIB) } }),
        start({ env: { PATH: '/x:'.repeat(40 * KIB) }, argv: ['nothing'] }),
      ],
    },
    {
      name: 'globs over variables',
      requests: () =>
        ['exclude', 'includeOnly'].map((filter) =>
          start({
            envPolicy: {
              inherit: 'all',
              ignoreDefaultExcludes: false,
              exclude: [],
              includeOnly: [],
              set: { [`A${'a'.repeat(6_000)}`]: 'x' },
              [filter]: Array.from({ length: 50 }, (_, index) => `*${'a'.repeat(20)}${index}b`),
            },
          }),
        ),
    },
    {
      name: 'more globs and variables than a policy may have',
      requests: () => [
        start({
          envPolicy: {
            inherit: 'all',
            ignoreDefaultExcludes: true,
            exclude: Array(4_000).fill('*a*b'),
            includeOnly: [],
            set: MANY_VARIABLES,
          },
        }),
      ],
    },
    {
      name: 'the largest sandbox',
      requests: (fixture) => [
        start({
          sandbox: sandbox(
            Array.from({ length: 400 }, (_, index) =>
              pathEntry(fixture.uri('tree', String(index % 90), String(index)), index % 2 ? 'write' : 'deny'),
            ),
          ),
        }),
      ],
    },
    {
      name: 'a sandbox with too many entries',
      requests: () => [
        start({ sandbox: sandbox(Array(40_000).fill(pathEntry('file:///nowhere/x'))) }),
        start({ sandbox: { type: 'workspaceWrite', writableRoots: Array(200_000).fill('file:///x') } }),
      ],
    },
    {
      name: 'a sandbox with hostile URIs',
      requests: (fixture) => [
        ...urisOf(fixture).map((uri) => start({ sandbox: sandbox([pathEntry(uri)]) })),
        ...urisOf(fixture).map((uri) => start({ sandbox: sandbox([], { cwd: uri, workspaceRoots: [uri] }) })),
      ],
    },
    {
      name: 'a sandbox with globs over long names and a tree',
      requests: (fixture) =>
        [HOSTILE_GLOBS, HOSTILE_LONG_GLOBS, TOO_MANY_GLOBS, HOSTILE_PATH_GLOBS].map((globs, index) =>
          start({ sandbox: sandbox(globs.map(denied), { cwd: fixture.uri(index < 3 ? 'long' : 'tree') }) }),
        ),
    },
    {
      name: 'a proxy with the most patterns',
      requests: () => [
        start({
          networkProxy: proxy({
            domains: Object.fromEntries(
              Array.from({ length: 4_000 }, (_, index) => [`${'*a'.repeat(100)}${index}.example`, 'allow']),
            ),
          }),
        }),
      ],
    },
    {
      name: 'a proxy with too many patterns',
      requests: () => [
        start({
          networkProxy: proxy({
            domains: Object.fromEntries(Array.from({ length: 16_000 }, (_, i) => [`h${i}.example`, 'deny'])),
            reviewDomains: Array(4_000).fill(`${'\u00fc\u0301'.repeat(20)}.example`),
          }),
        }),
        start({ networkProxy: proxy({ reviewDomains: [`${'\u00fc\u0301'.repeat(100 * KIB)}.example`] }) }),
      ],
    },
    {
      name: 'credential patterns that backtrack',
      requests: () => [
        start({
          env: { SECRET: 'a'.repeat(120 * KIB) },
          networkProxy: proxy({
            credentialMasking: true,
            credentialProviders: {
              x: {
                env: ['SECRET'],
                patterns: ['(a+)+b', '(a|a)*c', '(a?){200}a{200}', '((a{1,100}){1,100}){1,100}'],
                url_prefixes: ['https://x.example'],
              },
            },
          }),
        }),
      ],
    },
    {
      name: 'long texts everywhere',
      requests: () => [
        start({ metadata: { threadId: '0'.repeat(3 * MIB), toolCallId: 'x'.repeat(3 * MIB) } }),
        start({ metadata: { toolCallId: 'x'.repeat(3 * MIB) } }),
        start({ processId: LONG_ID }),
        start({ processId: 'x'.repeat(3 * MIB) }),
        start({ shellSnapshot: { scopeId: 'x'.repeat(3 * MIB), shell: { name: 'sh', path: '/bin/sh' } } }),
      ],
    },
    {
      name: 'a login shell with a large state',
      requests: () => [
        start({
          argv: ['/bin/bash', '-lc', 'true'],
          envPolicy: {
            inherit: 'all',
            ignoreDefaultExcludes: true,
            exclude: [],
            includeOnly: [],
            set: {},
          },
          shellSnapshot: { scopeId: 's', shell: { name: 'bash', path: '/bin/bash' } },
        }),
      ],
      answer: 'result',
    },
    {
      name: 'the other forms',
      requests: () => [
        { direct: { ...start({ argv: MANY_ARGUMENTS }), io: { type: 'pipe', stdin: 'closed' } } },
        {
          prepared: {
            processId: 'q',
            request: start({ argv: MANY_ARGUMENTS }),
            io: { type: 'pipe', stdin: 'closed' },
          },
        },
        { direct: {}, prepared: {}, argv: Array(60_000).fill({}) },
      ],
    },
  ],
  'process/read': [
    {
      name: 'many small chunks',
      before: MANY_CHUNKS,
      requests: () => [{ processId: 'p', afterSeq: 0 }],
      answer: 'result',
    },
    longId(),
  ],
  'process/write': [
    {
      name: 'the largest message',
      before: running(1, { pipeStdin: true }),
      requests: () => [{ processId: 'p0', chunk: base64(47 * MIB), writeId: LONG_ID }],
    },
    {
      name: 'base64 that is wrong at the end',
      before: running(1, { pipeStdin: true }),
      requests: () => [{ processId: 'p0', chunk: `${base64(47 * MIB)}QQ=A`, writeId: '1' }],
    },
    longId({ chunk: '', writeId: '1' }),
  ],
  'process/signal': [
    { name: 'a long name', requests: () => [{ processId: 'p', signal: 'SIG'.repeat(MIB) }] },
    longId({ signal: 'SIGTERM' }),
  ],
  'process/terminate': [longId()],
  'process/closeStdin': [longId()],
  'process/resize': [longId({ rows: 65_535, cols: 65_535 })],
  'process/wait': [longId()],
  'process/snapshot': [
    { name: 'full streams', before: MUCH_OUTPUT, requests: () => [{ processId: 'p' }], answer: 'result' },
    {
      name: 'many small chunks',
      before: MANY_CHUNKS,
      requests: () => [{ processId: 'p' }],
      answer: 'result',
    },
    longId(),
  ],
  'process/list': [
    {
      name: 'many processes with long ids',
      before: async (client) => {
        for (let index = 0; index < 100; index++) {
          await client.call('process/start', start({ processId: `${index}${'i'.repeat(60 * KIB)}` }));
        }
      },
      requests: () => [{}],
    },
    {
      name: 'processes with long arguments',
      before: running(20, { argv: LONG_ARGUMENTS }),
      requests: () => [{}],
    },
    {
      name: 'processes with many arguments',
      before: running(20, { argv: MANY_ARGUMENTS }),
      requests: () => [{}],
    },
    {
      name: 'all processes of the server, with their ports',
      before: running(100),
      requests: () => [{ scope: 'server', ports: true }],
    },
  ],
  'command/exec': [
    { name: 'hostile URIs', requests: (fixture) => urisOf(fixture).map((cwd) => start({ cwd })) },
    { name: 'many arguments', requests: () => [start({ argv: MANY_ARGUMENTS })], answer: 'result' },
    longId({ argv: ['/bin/true'], cwd: '/', env: {}, tty: false }),
  ],
  'command/exec/write': [
    {
      name: 'the largest message',
      before: running(1, { tty: true }),
      requests: () => [
        { processId: 'p0', chunk: base64(47 * MIB) },
        { processId: 'p0', chunk: `${base64(47 * MIB)}QQ=A` },
      ],
    },
  ],
  'command/exec/terminate': [longId()],
};
