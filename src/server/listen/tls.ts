import { readFile } from 'node:fs/promises';
import type { Server as HttpServer, ServerOptions } from 'node:http';
import { createServer, type Server } from 'node:https';
import { createSecureContext } from 'node:tls';
import { StartError } from '../start-error.ts';

/** The files that a listener proves its identity with. `clientCa` is null where clients need no certificate. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | null;
}

/** An HTTP server behind TLS 1.2 or later whose certificate can be changed while it runs. */
export interface TlsServer {
  readonly server: HttpServer;
  /** Reads the files again. Connections that are open keep what they have. Throws StartError, and goes on with the old ones. */
  reload(): Promise<void>;
}

export async function createTlsServer(
  files: TlsFiles,
  options: ServerOptions,
  handshakeTimeout: number,
): Promise<TlsServer> {
  const server: Server = createServer({
    ...options,
    ...(await readIdentity(files)),
    ...(files.clientCa !== null && { requestCert: true, rejectUnauthorized: true }),
    handshakeTimeout,
  });
  return { server, reload: async () => server.setSecureContext(await readIdentity(files)) };
}

interface Identity {
  readonly minVersion: 'TLSv1.2';
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

/** Reads everything, and tries it out: what is wrong must not surface with the first client. */
async function readIdentity({ cert, key, clientCa }: TlsFiles): Promise<Identity> {
  const identity: Identity = {
    minVersion: 'TLSv1.2',
    cert: await readPem('--tls-cert', cert),
    key: await readPem('--tls-key', key),
    ...(clientCa !== null && { ca: await readPem('--tls-client-ca', clientCa) }),
  };
  tryOut(`--tls-cert ${cert} and --tls-key ${key} cannot be used together`, identity);
  return identity;
}

async function readPem(flag: string, path: string): Promise<Buffer> {
  let pem: Buffer;
  try {
    pem = await readFile(path);
  } catch (error) {
    throw new StartError(`cannot read ${flag} ${path}: ${(error as Error).message}`);
  }
  // OpenSSL takes a file without certificates for no authority at all, which would trust nobody without saying why.
  if (!pem.includes('-----BEGIN ')) throw new StartError(`${flag} ${path} is not a PEM file`);
  return pem;
}

function tryOut(complaint: string, identity: Identity): void {
  try {
    createSecureContext(identity);
  } catch (error) {
    throw new StartError(`${complaint}: ${(error as Error).message}`);
  }
}
