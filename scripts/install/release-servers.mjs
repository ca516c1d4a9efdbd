// Stand-ins for the places that a release is published to, on loopback: the registry of npm, and the downloads of GitHub.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { basename, join } from 'node:path';

/**
 * Serves a packed package as the latest version on npm. All other packages come from the registry of this machine: npm follows the
 * redirects itself.
 */
export async function serveRegistry(tarball, manifest) {
  const upstream = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  const bytes = readFileSync(tarball);
  const { name, version } = manifest;
  const path = `/${name}/-/${basename(tarball)}`;
  const server = createServer(({ url }, response) => {
    if (url === path) response.end(bytes);
    else if (url === `/${name}`) response.setHeader('content-type', 'application/json').end(packument());
    else response.writeHead(302, { location: new URL(url, upstream).href }).end();
  });
  const port = await listen(server);
  const packument = () => {
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
    const dist = { tarball: `http://127.0.0.1:${port}${path}`, integrity };
    return JSON.stringify({
      name,
      'dist-tags': { latest: version },
      versions: { [version]: { ...manifest, dist } },
    });
  };
  return { environment: { npm_config_registry: `http://127.0.0.1:${port}/` }, close: () => close(server) };
}

/**
 * Serves the files of a folder as the latest release of the repository. `settings` becomes a folder that makes curl find and trust the server:
 * mount it at the path in the environment.
 */
export async function serveDownloads(folder, repository, settings) {
  mkdirSync(settings);
  const { hostname, pathname } = new URL(repository);
  const [cert, key] = [join(settings, 'certificate.pem'), join(settings, 'key.pem')];
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const subject = ['-subj', `/CN=${hostname}`, '-addext', `subjectAltName=DNS:${hostname}`];
  execFileSync('openssl', ['req', '-x509', ...newKey, ...subject, '-out', cert, '-keyout', key], {
    stdio: 'ignore',
  });
  const prefix = `${pathname}/releases/latest/download/`;
  const server = createTlsServer(
    { cert: readFileSync(cert), key: readFileSync(key) },
    (request, response) => {
      const file = join(folder, basename(request.url));
      const isFound = request.url.startsWith(prefix) && existsSync(file);
      response.writeHead(isFound ? 200 : 404).end(isFound ? readFileSync(file) : '');
    },
  );
  const port = await listen(server);
  const mounted = '/opt/curl';
  writeFileSync(
    join(settings, '.curlrc'),
    `connect-to = "${hostname}:443:127.0.0.1:${port}"\ncacert = "${mounted}/certificate.pem"\n`,
  );
  return { environment: { CURL_HOME: mounted }, mounted, close: () => close(server) };
}

async function listen(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

async function close(server) {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}
