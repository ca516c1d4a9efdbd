import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { JsonOutput, PlainOutput, StandardStreams } from '../../../../src/cli/programs/program-output.ts';

function captured() {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const streams = new StandardStreams(stdout, stderr);
  return { streams, stdout: () => String(stdout.read() ?? ''), stderr: () => String(stderr.read() ?? '') };
}

test('JSON output never splits a character, and has other bytes in base64', async () => {
  const { streams, stdout } = captured();
  const output = new JsonOutput(streams);
  const euro = Buffer.from('€');
  await output.write('stdout', 1, Buffer.concat([Buffer.from('a'), euro.subarray(0, 2)]));
  await output.write('stderr', 2, Buffer.from('e'));
  await output.write('stdout', 3, euro.subarray(2));
  await output.write('stdout', 4, Uint8Array.of(0xff, 0x41));
  await output.write('stdout', 5, euro.subarray(0, 1));
  output.lost({ type: 'lost', fromSeq: 6, toSeq: 7, bytes: 9, streamBytes: null });
  output.exited({ exitCode: 3, reason: null, sandboxDenied: false });
  await output.flush();
  const events = stdout()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events).toEqual([
    { type: 'output', seq: 1, stream: 'stdout', data: 'a' },
    { type: 'output', seq: 2, stream: 'stderr', data: 'e' },
    { type: 'output', seq: 3, stream: 'stdout', data: '€' },
    { type: 'output', seq: 4, stream: 'stdout', data: '/0E=', encoding: 'base64' },
    { type: 'output', stream: 'stdout', data: '4g==', encoding: 'base64' },
    { type: 'lost', fromSeq: 6, toSeq: 7, bytes: 9 },
    { type: 'exit', exitCode: 3, reason: null, sandboxDenied: false },
  ]);
});

test('plain output reports a gap on stderr', async () => {
  const { streams, stdout, stderr } = captured();
  const output = new PlainOutput(streams, false);
  await output.write('stdout', 1, Buffer.from('out'));
  await output.write('stderr', 2, Buffer.from('err\n'));
  output.lost({ type: 'lost', fromSeq: 3, toSeq: 4, bytes: 5, streamBytes: null });
  await output.flush();
  expect([stdout(), stderr()]).toEqual([
    'out',
    'err\nexec-server: 5 bytes of output are lost here; the next line may lack its beginning\n',
  ]);
});

test('a slow reader is waited for', async () => {
  const writes: (() => void)[] = [];
  const slow = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, done) => void writes.push(done) });
  const streams = new StandardStreams(slow, new PassThrough());
  let isWritten = false;
  const writing = streams.toStdout('abc').then(() => {
    isWritten = true;
  });
  await new Promise(setImmediate);
  expect(isWritten).toBe(false);
  writes[0]!();
  await writing;
  expect(isWritten).toBe(true);
});

test('a reader that is gone is reported, and writing to it does nothing', async () => {
  const closed = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error('closed'), { code: 'EPIPE' })),
  });
  const streams = new StandardStreams(closed, new PassThrough());
  await streams.toStdout('abc');
  await streams.readerGone;
  await streams.toStdout('more');
  await streams.flush();
});

/** A stream to a file, as Node makes it for stdout and stderr. */
function fileStream(flags: string) {
  const folder = mkdtempSync(join(tmpdir(), 'program-output-'));
  const path = join(folder, 'file');
  closeSync(openSync(path, 'w'));
  const fd = openSync(path, flags);
  onTestFinished(() => {
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });
  const write: Writable['_write'] = (chunk: Buffer, _encoding, done) => {
    writeSync(fd, chunk);
    done();
  };
  return { path, stream: Object.assign(new Writable({ write }), { fd }) };
}

test('stdout and stderr in one file keep their order, and everything is written at the end', async () => {
  const { path, stream } = fileStream('w');
  const streams = new StandardStreams(stream, stream);
  const large = 'x'.repeat(300_000);
  for (const letter of ['a', 'b', 'c']) {
    await streams.toStdout(`${letter}${large}`);
    await streams.toStdout('.');
    await streams.toStderr(letter.toUpperCase());
  }
  await streams.toStdout('end');
  await streams.flush();
  expect(readFileSync(path, 'utf8').replaceAll(large, '-')).toBe('a-.Ab-.Bc-.Cend');
});

test('reports a directory, for which Node has a stream that drops everything', async () => {
  const fd = openSync(tmpdir(), 'r');
  onTestFinished(() => closeSync(fd));
  const dropping = new Writable({ write: (_chunk, _encoding, done) => done() });
  const streams = new StandardStreams(Object.assign(dropping, { fd }), new PassThrough());
  await streams.toStdout('lost');
  await streams.readerGone;
  expect(streams.failure?.message).toMatch(/^cannot write to stdout: /);
});

test('reports a file that cannot be written, and takes what follows', async () => {
  const { stream } = fileStream('r');
  const streams = new StandardStreams(stream, new PassThrough());
  await streams.toStdout('lost');
  await streams.flush();
  await streams.readerGone;
  expect(streams.failure?.message).toMatch(/^cannot write to stdout: bad file descriptor$/);
  await streams.toStdout('more');
  await streams.flush();
});
