import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { Host } from '../../../../src/cli/commands.ts';
import { UsageError } from '../../../../src/cli/failures.ts';
import { portForwardCommand } from '../../../../src/cli/port-forward-command.ts';
import { ForwardReport } from '../../../../src/cli/ports/forward-report.ts';
import { MAX_SHOWN_ERRORS } from '../../../../src/cli/ports/limits.ts';
import { ClientError } from '../../../../src/client/errors.ts';

const BAD: Readonly<Record<string, readonly [string[], RegExp]>> = {
  'nothing to forward': [[], /name a port such as 8080 or 9000:8080, or use --auto or -D PORT/],
  'ports and --auto': [['8080', '--auto'], /exclude each other/],
  'ports and -D': [['8080', '-D', '1080'], /exclude each other/],
  '--auto and -D': [['--auto', '-D', '1080'], /exclude each other/],
  'a bad port': [['http'], /'http' does not end with a port/],
  'the same port twice': [['8080', '8080:1'], /127\.0\.0\.1:8080 is given more than once/],
  'a bad SOCKS port': [['-D', '127.0.0.1:1080'], /-D: '127\.0\.0\.1:1080' is not a port/],
  'a SOCKS port that is too large': [['-D', '65536'], /-D: '65536' is not a port/],
  'an empty SOCKS port': [['-D='], /is not a port/],
  'a time without a unit': [['8080', '--reconnect-timeout', '5'], /--reconnect-timeout '5' is not a time/],
  'a port of this machine to itself': [['8080', '-E', 'local'], /would be forwarded to itself/],
  'an unknown flag': [['8080', '--bind', 'x'], /unknown flag '--bind'/],
  'an unknown environment': [['8080', '-E', 'ftp://x'], /'ftp:\/\/x' is no environment/],
};

test.each(Object.entries(BAD))(
  'refuses %s before it uses anything of its process',
  async (_, [args, message]) => {
    const run = portForwardCommand(args, { env: {} } as Host);
    await expect(run).rejects.toThrow(message);
    await expect(run).rejects.toBeInstanceOf(UsageError);
  },
);

/** A report and what it has printed. */
function report(json = false) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const printed = (stream: PassThrough) => String(stream.read() ?? '');
  return {
    report: new ForwardReport({ stdout, stderr }, json),
    stdout: () => printed(stdout),
    stderr: () => printed(stderr),
  };
}

test('an error of a target is shown once, and again after a connection has succeeded', () => {
  const { report: shown, stderr } = report();
  const refused = new ClientError('server', 'connection refused', { hint: 'start it' });
  for (let i = 0; i < 3; i++) shown.failed('8080', refused);
  shown.failed('9090', refused);
  const line = (port: number) => `exec-server port-forward: ${port}: connection refused; start it\n`;
  expect(stderr()).toBe(line(8080) + line(9090));
  shown.succeeded('8080');
  shown.failed('8080', refused);
  shown.failed('9090', refused);
  expect(stderr()).toBe(line(8080));
});

test('the errors that are remembered are limited', () => {
  const { report: shown, stderr } = report();
  for (let i = 0; i <= MAX_SHOWN_ERRORS; i++) shown.failed(String(i), new Error('no'));
  stderr();
  shown.failed('0', new Error('no'));
  expect(stderr()).toBe('exec-server port-forward: 0: no\n');
});

test('each reason of a failed attempt to reconnect is shown once in a row', () => {
  const { report: shown, stderr } = report();
  shown.lost('the connection was lost: cut', 1);
  for (const reason of ['refused', 'refused', 'no route', 'refused']) shown.stillLost(new Error(reason));
  shown.reconnected();
  expect(stderr().split('\n')).toEqual([
    'exec-server port-forward: the connection was lost: cut; one open stream was reset; reconnecting…',
    'exec-server port-forward: cannot reconnect yet: refused',
    'exec-server port-forward: cannot reconnect yet: no route',
    'exec-server port-forward: cannot reconnect yet: refused',
    'exec-server port-forward: reconnected',
    '',
  ]);
});

test('text of a server does not reach the terminal as escape sequences', () => {
  const { report: shown, stdout, stderr } = report();
  const hostile = '\x1b]0;title\x07';
  shown.listening({ bind: '127.0.0.1', port: 1080, remote: null, ref: hostile, note: null });
  shown.lost(hostile, 0);
  shown.stillLost(new Error(`again ${hostile}`));
  shown.failed('8080', new Error(hostile));
  const printed = stdout() + stderr();
  expect(printed.split('\\x1b]0;title\\x07')).toHaveLength(5);
  expect(printed).not.toContain('\x1b');
});

test('with JSON everything is on stdout, one object per line', () => {
  const { report: shown, stdout, stderr } = report(true);
  shown.listening({ bind: '127.0.0.1', port: 1080, remote: null, ref: null, note: null });
  shown.lost('cut', 0);
  shown.stillLost(new Error('refused'));
  shown.reconnected();
  shown.failed('8080', new ClientError('server', 'failed', { hint: 'fix it' }));
  const events = stdout()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events).toEqual([
    { type: 'listening', address: '127.0.0.1', port: 1080, protocol: 'socks5' },
    { type: 'reconnecting', reason: 'cut', openStreams: 0 },
    { type: 'retrying', reason: 'refused' },
    { type: 'reconnected' },
    { type: 'error', target: '8080', code: 'server', message: 'failed', hint: 'fix it' },
  ]);
  expect(stderr()).toBe('');
});
