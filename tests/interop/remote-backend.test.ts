import { ensureReference, startReference } from '../../scripts/reference.mjs';
import { ExecServerClient } from '../../src/client/client.ts';
import { RemoteFileSystem } from '../../src/client/files/remote-file-system.ts';
import { fileSuite } from '../support/file-suite.ts';
import { processSuite } from '../support/process-suite.ts';

const skipped = await ensureReference().then(
  () => null,
  (error: Error) => error.message,
);

processSuite(
  'processes of the reference server',
  async () => {
    const { client, close } = await connect();
    return { backend: client.backend, close };
  },
  { extensions: false, skipped },
);

fileSuite(
  'files of the reference server',
  async () => {
    const { client, close } = await connect();
    return { files: new RemoteFileSystem(client), close };
  },
  { extensions: false, skipped },
);

async function connect() {
  const server = await startReference();
  try {
    const client = await ExecServerClient.connect({ url: server.url! });
    return { client, close: () => client.close().finally(() => server.stop()) };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
