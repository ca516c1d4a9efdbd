import { readFile } from 'node:fs/promises';
import { createSecureContext, createServer, type Server } from 'node:tls';
import { StartError } from './start-error.ts';

/** Paths of the PEM files of a TLS listener. `clientCa` is null where clients need no certificate. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | null;
}

/** A TLS server (1.2 or later) for HTTP that can reload its certificate while it runs. */
export interface TlsServer {
  readonly server: Server;
  /** Reads the files again. Open connections are not affected. Throws StartError and keeps the previous certificate. */
  reload(): Promise<void>;
}

export async function createTlsServer(files: TlsFiles, handshakeTimeout: number): Promise<TlsServer> {
  const server = createServer({
    ...(await readIdentity(files)),
    ...(files.clientCa !== null && { requestCert: true, rejectUnauthorized: true }),
    ALPNProtocols: ['http/1.1'],
    allowHalfOpen: true,
    handshakeTimeout,
  });
  server.on('tlsClientError', (_error, socket) => void socket.destroy());
  return { server, reload: async () => server.setSecureContext(await readIdentity(files)) };
}

interface Identity {
  readonly minVersion: 'TLSv1.2';
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

/** Reads and validates the files, so that a wrong file fails the start and not the first client. */
async function readIdentity({ cert, key, clientCa }: TlsFiles): Promise<Identity> {
  const identity: Identity = {
    minVersion: 'TLSv1.2',
    cert: await readPem('--tls-cert', cert),
    key: await readPem('--tls-key', key),
    ...(clientCa !== null && { ca: await readPem('--tls-client-ca', clientCa) }),
  };
  try {
    createSecureContext(identity);
  } catch (error) {
    const reason = (error as Error).message;
    throw new StartError(`--tls-cert ${cert} and --tls-key ${key} cannot be used together: ${reason}`);
  }
  return identity;
}

async function readPem(flag: string, path: string): Promise<Buffer> {
  let pem: Buffer;
  try {
    pem = await readFile(path);
  } catch (error) {
    throw new StartError(`cannot read ${flag} ${path}: ${(error as Error).message}`);
  }
  // OpenSSL accepts a CA file without certificates as an empty list, which rejects every client without a reason.
  if (!pem.includes('-----BEGIN ')) throw new StartError(`${flag} ${path} is not a PEM file`);
  return pem;
}
