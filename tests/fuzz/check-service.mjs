import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { TestClient } from '../../dist/testing/index.js';

/** A well-behaved client: runs a program, writes and reads a file, and disconnects. Throws when the server fails it. */
export async function checkService(url, folder) {
  mkdirSync(folder, { recursive: true });
  const path = pathToFileURL(join(folder, 'file')).href;
  const client = await TestClient.connect(url);
  await client.handshake();
  const program = {
    processId: 'p',
    argv: ['/bin/cat'],
    cwd: 'file:///',
    env: {},
    tty: false,
    pipeStdin: true,
  };
  await client.call('process/start', program);
  const chunk = Buffer.from('hello').toString('base64');
  assert.deepEqual(await client.call('process/write', { processId: 'p', chunk, writeId: '1' }), {
    status: 'accepted',
  });
  await client.call('process/closeStdin', { processId: 'p' });
  const events = await client.closedProcess('p');
  assert.equal(events.text(), 'hello');
  assert.equal(events.exitCode, 0);
  await client.call('fs/writeFile', { path, dataBase64: chunk });
  assert.equal((await client.call('fs/readFile', { path })).dataBase64, chunk);
  await client.close();
  rmSync(folder, { recursive: true, force: true });
}
