import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { TestClient } from '../../dist/testing/index.js';

/** A client as it should be: runs a program, writes a file, reads it, and leaves. Throws when it is not served. */
export async function honestVisit(url, folder) {
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
  const chunk = Buffer.from('honest').toString('base64');
  assert.deepEqual(await client.call('process/write', { processId: 'p', chunk, writeId: '1' }), {
    status: 'accepted',
  });
  await client.call('process/closeStdin', { processId: 'p' });
  const events = await client.closedProcess('p');
  assert.equal(events.text(), 'honest');
  assert.equal(events.exitCode, 0);
  await client.call('fs/writeFile', { path, dataBase64: chunk });
  assert.equal((await client.call('fs/readFile', { path })).dataBase64, chunk);
  await client.close();
  rmSync(folder, { recursive: true, force: true });
}
