import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AgentExec } from '../../../src/agent/index.ts';
import { ExecServerClient as BrowserClient } from '../../../src/client/browser-client.ts';
import { communicate, connect, type ExecProcess, type ExecServerClient } from '../../../src/client/index.ts';
import { run } from '../../../src/client/process/run.ts';
import { stdioCommand } from '../../../src/client/stdio.ts';
import { EnvironmentManager, LocalEnvironment } from '../../../src/environment/index.ts';
import { FakeServer, startParams } from './fake-server.ts';

const server = new FakeServer();
let client: ExecServerClient;
let process: ExecProcess;
beforeAll(async () => {
  client = await server.connect();
  process = await client.backend.start({ ...startParams(), pipeStdin: true });
});
afterAll(() => client.close());

/** A value of a wrong type. */
const wrong = (value: unknown) => value as never;

const agent = new AgentExec({ targets: [] });

/** What a call throws, now or later. */
async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return null;
}

test.each<[string, unknown, RegExp]>([
  ['true', true, /^`tls` is a boolean, not an object; write wss:/],
  ['a misspelt option', { caa: 'x' }, /^`tls` of connect has no option `caa`; did you mean 'ca'\?$/],
  [
    'the path of a certificate',
    { ca: 'cert.pem' },
    /^`tls.ca` is not PEM text; pass the content of the file/,
  ],
  [
    'a text for a switch',
    { rejectUnauthorized: 'no' },
    /`tls.rejectUnauthorized` is a string, not true or false/,
  ],
])('connect rejects `tls` with %s', async (_name, tls, message) => {
  const refused = { kind: 'config', message: expect.stringMatching(message) };
  await expect(connect({ url: 'wss://127.0.0.1:1', tls: wrong(tls) })).rejects.toMatchObject(refused);
});

test('connect refuses options as a second argument', async () => {
  const refused = {
    kind: 'config',
    message: expect.stringMatching(/one argument; pass .* as \{ url, authToken \}/),
  };
  const more = wrong({ authToken: 'x' });
  await expect(connect('ws://127.0.0.1:1', more)).rejects.toMatchObject(refused);
  await expect(BrowserClient.connect('ws://127.0.0.1:1', more)).rejects.toMatchObject(refused);
});

test('environments refuse unknown settings', () => {
  const refused = { kind: 'config', message: expect.stringContaining('no option `cwdd`') };
  const settings = wrong({ cwdd: '/' });
  expect(() => new LocalEnvironment(settings)).toThrow(expect.objectContaining(refused));
  const none = { default: null, includeLocal: false, environments: [] };
  expect(() => new EnvironmentManager(none, settings)).toThrow(expect.objectContaining(refused));
});

describe('connect', () => {
  const url = 'ws://127.0.0.1:1';
  const open = () => new Promise<never>(() => {});
  test.each<[string, unknown, RegExp]>([
    ['a misspelt option', { urll: url }, /^connect has no option `urll`; did you mean 'url'\?$/],
    [
      'a misspelt time',
      { url, connectTimeout: 5 },
      /no option `connectTimeout`; did you mean 'connectTimeoutMs'/,
    ],
    [
      'an option that nothing is like',
      { url, retries: 5 },
      /no option `retries`; its options are authToken, /,
    ],
    [
      'an option of a URL with a transport',
      { open, resumable: true, authToken: 'x' },
      /no option `authToken`/,
    ],
    ['the token under another name', { url, token: 'x' }, /no option `token`; did you mean 'authToken'/],
    [
      'the timeout of a call',
      { url, timeoutMs: 5 },
      /no option `timeoutMs`; did you mean 'connectTimeoutMs'/,
    ],
    ['a signal that is none', { url, signal: 'x' }, /`signal` is a string, not an AbortSignal/],
    ['a transport that is no function', { open: 5, resumable: true }, /^`open` is 5, not a function$/],
    ['nothing', undefined, /target of `connect` is missing, not a URL or options; pass the address/],
    ['null', null, /target of `connect` is null/],
    ['a number', 4000, /target of `connect` is 4000/],
    ['no URL', {}, /^`url` is missing; pass the address/],
    ['a URL that is a number', { url: 4000 }, /^`url` is a number/],
    ['a token that is an object', { url, authToken: {} }, /^`authToken` is an object, not a text$/],
  ])('rejects %s', async (_name, target, message) => {
    const refused = { name: 'ClientError', kind: 'config', message: expect.stringMatching(message) };
    expect(await thrownBy(() => connect(wrong(target)))).toMatchObject(refused);
    expect(await thrownBy(() => BrowserClient.connect(wrong(target)))).toMatchObject(refused);
  });

  test('accepts options that are undefined, a URL object, and a transport of a class', async () => {
    class Source {
      readonly resumable = true;
      readonly more = 'of its own';
      open = server.open;
    }
    await (await connect(new Source())).close();
    const refused = { kind: 'connectFailed' };
    await expect(
      connect({ url: new URL(url), tls: undefined, urll: undefined } as never),
    ).rejects.toMatchObject(refused);
  });
});

const OPTIONS: readonly [string, (options: never) => unknown, string, RegExp][] = [
  [
    'run',
    (options) => client.run(['x'], options),
    'timeout',
    /^run has no option `timeout`; did you mean 'timeoutMs'\?$/,
  ],
  ['run as a function', (options) => run(client.backend, ['x'], options), 'signals', /did you mean 'signal'/],
  ['spawn', (options) => client.spawn('x', options), 'onStdOut', /did you mean 'onStdout'/],
  [
    'communicate',
    (options) => communicate(process, '', options),
    'maxOutput',
    /did you mean 'maxOutputBytes'/,
  ],
  ['wait', (options) => process.wait(options), 'timeout', /did you mean 'timeoutMs'/],
  ['write', (options) => process.write('', options), 'timeout', /process\.write has no option .*'timeoutMs'/],
  ['terminate', (options) => process.terminate(undefined, options), 'timeout', /did you mean 'timeoutMs'/],
  ['screen', (options) => process.screen(options), 'timeout', /did you mean 'timeoutMs'/],
  ['events', (options) => process.events(options), 'signall', /did you mean 'signal'/],
  ['read', (options) => process.read(options), 'after', /its options are afterSeq/],
  ['attach', (options) => client.attach('x', options), 'takeover', /did you mean 'takeOver'/],
  ['processes.list', (options) => client.processes.list(options), 'port', /did you mean 'ports'/],
  ['processes.get', (options) => client.processes.get('x', options), 'timeout', /did you mean 'timeoutMs'/],
  ['forward', (options) => client.forward(options), 'localport', /did you mean 'localPort'/],
  ['connectTcp', (options) => client.connectTcp(options), 'ports', /did you mean 'port'/],
  ['http.request', (options) => client.http.request(options), 'uri', /did you mean 'url'/],
  ['http.stream', (options) => client.http.stream(options), 'header', /did you mean 'headers'/],
  [
    'files.read',
    (options) => client.files.read('/x', options),
    'followSymlink',
    /files\.read has no option `followSymlink`; did you mean 'followSymlinks'/,
  ],
  ['files.readText', (options) => client.files.readText('/x', options), 'encoding', /its options are/],
  [
    'files.readStream',
    (options) => client.files.readStream('/x', options).next(),
    'followSymlinks',
    /no option/,
  ],
  ['files.write', (options) => client.files.write('/x', '', options), 'parent', /did you mean 'parents'/],
  ['files.list', (options) => client.files.list('/x', options), 'recursive', /no option/],
  ['files.stat', (options) => client.files.stat('/x', options), 'timeout', /did you mean/],
  ['files.exists', (options) => client.files.exists('/x', options), 'timeout', /did you mean/],
  ['files.realPath', (options) => client.files.realPath('/x', options), 'timeout', /did you mean/],
  ['files.walk', (options) => client.files.walk('/x', options).next(), 'depth', /no option/],
  ['files.search', (options) => client.files.search('/x', 'y', options), 'case', /no option/],
  ['files.watch', (options) => client.files.watch('/x', options), 'debounce', /did you mean 'debounceMs'/],
  ['files.copy', (options) => client.files.copy('/x', '/y', options), 'recursive', /no option/],
  ['files.move', (options) => client.files.move('/x', '/y', options), 'overwrite', /no option/],
  ['files.remove', (options) => client.files.remove('/x', options), 'recursiv', /did you mean 'recursive'/],
  ['files.makeDirectory', (options) => client.files.makeDirectory('/x', options), 'recursive', /no option/],
  ['files.hash', (options) => client.files.hash('/x', options), 'algorithm', /no option/],
  ['files.hashAll', (options) => client.files.hashAll(['/x'], options), 'algorithm', /no option/],
  ['files.upload', (options) => client.files.upload('/x', '/y', options), 'progress', /no option/],
  [
    'files.download',
    (options) => client.files.download('/x', '/y', options),
    'verfy',
    /did you mean 'verify'/,
  ],
];

describe.each(OPTIONS)('%s', (_name, call, option, message) => {
  test('rejects an option that it does not have, before it sends anything', async () => {
    const sent = server.link.requests.length;
    const error = await thrownBy(() => call(wrong({ [option]: 1 })));
    expect(error).toMatchObject({
      name: 'ClientError',
      kind: 'invalidInput',
      message: expect.stringMatching(message),
    });
    expect(server.link.requests.length).toBe(sent);
  });

  test('rejects options that are no object', async () => {
    expect(await thrownBy(() => call(wrong(5)))).toMatchObject({ name: 'ClientError', kind: 'invalidInput' });
  });
});

const ARGUMENTS: readonly [string, () => unknown, RegExp][] = [
  [
    'run without a command',
    () => client.run(wrong(undefined)),
    /the command of `run` is missing; pass a program/,
  ],
  ['run with an empty text', () => client.run(''), /the command of `run` is an empty string/],
  [
    'run with a NUL',
    () => client.run(['x', 'a\0b']),
    /the command of `run` contains a NUL character; pass such/,
  ],
  [
    'AgentExec without options',
    () => new AgentExec(wrong(undefined)),
    /options of AgentExec are null, not an object/,
  ],
  ['AgentExec without targets', () => new AgentExec(wrong({})), /`targets` is missing, not a list; pass/],
  [
    'a misspelt agent option',
    () => new AgentExec(wrong({ target: [] })),
    /no option `target`; did you mean 'targets'/,
  ],
  [
    'an agent call alone',
    () => agent.execCommand({ cmd: 'x' }, wrong(undefined)),
    /context of `execCommand` is missing/,
  ],
  [
    'an agent call without id',
    () => agent.execCommand({ cmd: 'x' }, wrong({})),
    /`callId` is missing, not a text/,
  ],
  [
    'reopen alone',
    () => agent.reopen('x', wrong(undefined)),
    /the context of `reopen` is missing, not an object/,
  ],
  ['run with an empty list', () => client.run([]), /the command of `run` is an empty list/],
  ['run with a number', () => client.run(['sleep', wrong(5)]), /a list with something else than texts/],
  ['spawn without a command', () => client.spawn(wrong(null)), /the command of `spawn` is null/],
  [
    'write without bytes',
    () => process.write(wrong(undefined)),
    /`bytes` is missing, not text or a Uint8Array/,
  ],
  ['write with a number', () => process.write(wrong(5)), /`bytes` is 5, not text/],
  ['signal without a name', () => process.signal(wrong(undefined)), /`signal` is missing, not a text/],
  [
    'read a number',
    () => client.files.readText(wrong(5)),
    /^cannot read 5: the path is 5, not a text or a URL$/,
  ],
  [
    'a misspelt mode',
    () => process.terminate(wrong({ type: 'gracefull', timeoutMs: 1 })),
    /type 'gracefull'; pass/,
  ],
  [
    'a mode as a text',
    () => process.terminate(wrong('graceful')),
    /mode of `terminate` is a string, not an obj/,
  ],
  [
    'a mode without its time',
    () => process.terminate(wrong({ type: 'graceful' })),
    /`timeoutMs` of the mode is mi/,
  ],
  ['a mode by name', () => client.processes.terminate('x', wrong({ type: 'x' })), /has the type 'x'/],
  ['a signal that is null', () => process.kill(wrong(null)), /`signal` is null, not a text/],
  [
    'wait for a wrong event',
    () => process.wait({ until: wrong('end') }),
    /`until` is 'end', not 'exited' or 'closed'/,
  ],
  ['a negative wait', () => process.read({ waitMs: -1 }), /`waitMs` is -1/],
  [
    'an unknown role',
    () => client.attach('x', { role: wrong('drivr') }),
    /`role` is 'drivr'.*did you mean 'driver'/,
  ],
  ['a scope', () => client.processes.list({ scope: wrong('all') }), /`scope` is 'all', not 'session' or/],
  ['a size without columns', () => process.resize(5, wrong(undefined)), /`cols` is null/],
  [
    'a signal as a text',
    () => client.run(['x'], { signal: wrong('SIGTERM') }),
    /`signal` is a string, not an Abort/,
  ],
  [
    'a signal of a call',
    () => process.write('x', { signal: wrong({}) }),
    /`signal` is an object, not an AbortSignal/,
  ],
  [
    'a callback as a text',
    () => client.run(['x'], { onStdout: wrong('x') }),
    /`onStdout` is a string, not a func/,
  ],
  ['a number as input', () => client.run(['x'], { input: wrong(5) }), /`input` is 5, not text, a Uint8Array/],
  ['null as input', () => client.run(['x'], { input: wrong(null) }), /`input` is null/],
  [
    'numbers as input',
    () => client.run(['x'], { input: wrong([1, 2]) }),
    /a piece of `input` is 1, not text/,
  ],
  [
    'a misspelt limit',
    () => client.run(['x'], { limits: wrong({ wallMS: 5 }) }),
    /`limits` of run has no option `wallMS`; did you mean 'wallMs'/,
  ],
  [
    'a limit as a text',
    () => client.run(['x'], { limits: { wallMs: wrong('5s') } }),
    /`limits.wallMs` is a string/,
  ],
  [
    'a misspelt retention',
    () => client.spawn('x', { detached: wrong({ retainms: 1 }) }),
    /did you mean 'retainMs'/,
  ],
  [
    'detached as a text',
    () => client.spawn('x', { detached: wrong('yes') }),
    /`detached` is a string, not true, false/,
  ],
  [
    'a misspelt policy',
    () => client.run(['x'], { envPolicy: wrong({ inheritt: 'all' }) }),
    /did you mean 'inherit'/,
  ],
  [
    'an unknown policy',
    () => client.run(['x'], { envPolicy: { inherit: wrong('al') } }),
    /`envPolicy.inherit` is 'al'/,
  ],
  [
    'a terminal as a text',
    () => client.run(['x'], { tty: wrong('yes') }),
    /`tty` is a string, not true, false or/,
  ],
  [
    'a misspelt size',
    () => client.run(['x'], { tty: wrong({ rows: 1, columns: 2 }) }),
    /`columns`; did you mean 'cols'/,
  ],
  ['half a size', () => client.run(['x'], { tty: wrong({ rows: 1 }) }), /`tty.cols` is null/],
  [
    'a variable that is a number',
    () => client.run(['x'], { env: wrong({ A: 5 }) }),
    /`env.A` is 5, not a text; convert/,
  ],
  ['stdin of other libraries', () => client.run(['x'], wrong({ stdin: 'x' })), /did you mean 'input'/],
  ['a directory that is empty', () => client.run(['x'], { cwd: '' }), /^the path is empty/],
  ['read after something', () => process.read({ afterSeq: wrong('x') }), /`afterSeq` is a string/],
  ['wait for a text', () => process.wait({ timeoutMs: wrong('5s') }), /`timeoutMs` is a string/],
  ['a negative time', () => client.run(['x'], { timeoutMs: -1 }), /`timeoutMs` is -1, not a number of milli/],
  [
    'attach without a name',
    () => client.attach(wrong(undefined)),
    /`refOrName` is missing, not a text; pass/,
  ],
  ['get without a name', () => client.processes.get(''), /`refOrName` is an empty string/],
  ['terminate without a name', () => client.processes.terminate(wrong(undefined)), /`refOrName` is missing/],
  [
    'onStateChange without a listener',
    () => client.onStateChange(wrong(undefined)),
    /`listener` is missing, not a/,
  ],
  [
    'onNotification without a listener',
    () => client.onNotification('fs/changed', wrong({})),
    /`listener` is an/,
  ],
  ['onChange without a listener', () => process.onChange(wrong(undefined)), /`listener` is missing/],
  ['watchPorts without a listener', () => client.watchPorts(wrong(undefined)), /`listener` is missing/],
  [
    'forward without a port',
    () => client.forward(wrong({})),
    /`port` is missing, not a TCP port; write a number/,
  ],
  ['forward of a text', () => client.forward({ port: wrong('80') }), /`port` is a string, not a TCP port/],
  ['connectTcp without a target', () => client.connectTcp(wrong(undefined)), /`port` is missing/],
  [
    'http without a URL',
    () => client.http.request(wrong({})),
    /`url` is missing, not a text; pass the whole URL/,
  ],
  [
    'http with an object as body',
    () => client.http.request({ url: 'http://x', body: wrong({}) }),
    /`body` is an/,
  ],
  [
    'a file without a path',
    () => client.files.read(wrong(undefined)),
    /the path is missing, not a text or a URL/,
  ],
  [
    'a file with a number as content',
    () => client.files.write('/x', wrong(5)),
    /`content` is 5, not text, a Uint8/,
  ],
  [
    'a search without a pattern',
    () => client.files.search('/x', wrong(undefined)),
    /`pattern` is missing, not a/,
  ],
  ['hashes of a text', () => client.files.hashAll('/x'), /`paths` is a string, not a list of paths/],
];

test.each(ARGUMENTS)('%s is an error of the client', async (_name, call, message) => {
  const sent = server.link.requests.length;
  const error = await thrownBy(call);
  expect(error).toMatchObject({
    name: 'ClientError',
    kind: 'invalidInput',
    message: expect.stringMatching(message),
  });
  expect(server.link.requests.length).toBe(sent);
});

test('stdioCommand checks its options', async () => {
  for (const [options, message] of [
    [{ program: 'x', argv: [] }, /stdioCommand has no option `argv`; did you mean 'args'\?/],
    [{}, /`program` is missing, not the name or path of a program/],
  ] as const) {
    const error = await thrownBy(() => stdioCommand(wrong(options)));
    expect(error).toMatchObject({ kind: 'config', message: expect.stringMatching(message) });
  }
});
