// The conformance suite of the Model Context Protocol, which tests run against `exec-server mcp`. It is no dependency: it is fetched on demand.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ensureNode, NODE_VERSIONS } from './nodes.mjs';
import { ensurePackage } from './package-cache.mjs';

const NAME = '@modelcontextprotocol/conformance';
const VERSION = '0.2.0-alpha.12';

/** The command line of the suite: a Node that can run it (22 or later), and its program. */
export async function ensureMcpConformance() {
  const suite = await ensurePackage(NAME, VERSION, (folder) => {
    const main = join(folder, 'node_modules', NAME, 'dist/index.js');
    return existsSync(main) ? main : undefined;
  });
  const isRecent = Number(process.versions.node.split('.')[0]) >= 22;
  const node = isRecent
    ? process.execPath
    : await ensureNode(NODE_VERSIONS.find((version) => !version.startsWith('20.')));
  return [node, suite];
}
