// The files, programs and web server that hostile requests work on.
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const MIB = 1024 * 1024;

/** Sizes of the fixture: those that the documented limits allow. `npm run fuzz` and the test use the same. */
const WIDE_ENTRIES = 50_000;
const LONG_NAMES = 3_000;
const TREE_DIRECTORIES = 3_000;
const DEEP_LEVELS = 64;
const LARGE_FILE_BYTES = 64 * MIB;
const SKILLS = 28;
const PLUGINS = 4;
/** The head of a web server's response that the server accepts. */
const RESPONSE_HEADERS = 1_500;

export class Fixture {
  folder = mkdtempSync(join(tmpdir(), 'hostile-'));
  /** The home directory of the server: hostile configuration, skills and shell files. */
  home = join(this.folder, 'home');
  /** A web server whose answers are large. */
  web = '';
  #server;

  static async create() {
    const fixture = new Fixture();
    fixture.#createTrees();
    fixture.#createCapabilities();
    fixture.#createHome();
    await fixture.#startWebServer();
    return fixture;
  }

  /** @param {...string} names */
  uri(...names) {
    return pathToFileURL(join(this.folder, ...names)).href;
  }

  async remove() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #createTrees() {
    const { folder } = this;
    for (const name of ['wide', 'long', 'tree', 'scratch', 'lines'])
      mkdirSync(join(folder, name), { recursive: true });
    // Names of one file take a tenth of the time that files take.
    writeFileSync(join(folder, 'empty'), '');
    writeFileSync(join(folder, 'line'), 'a line that a search finds\n');
    for (let index = 0; index < WIDE_ENTRIES; index++) {
      linkSync(join(folder, 'empty'), join(folder, 'wide', `${index}-${'w'.repeat(40)}`));
    }
    for (let index = 0; index < LONG_NAMES; index++) {
      linkSync(join(folder, 'line'), join(folder, 'long', `${'a'.repeat(240)}${index}`));
    }
    for (let index = 0; index < TREE_DIRECTORIES; index++) {
      const path = join(folder, 'tree', String(index % 90), String(index));
      mkdirSync(path, { recursive: true });
      linkSync(join(folder, 'line'), join(path, 'file'));
    }
    let path = join(folder, 'deep');
    for (let level = 0; level < DEEP_LEVELS; level++) path = join(path, `level-${level}`);
    mkdirSync(path, { recursive: true });
    symlinkSync('self', join(folder, 'self'));
    writeFileSync(join(folder, 'large'), '');
    truncateSync(join(folder, 'large'), LARGE_FILE_BYTES);
    writeFileSync(
      join(folder, 'lines', 'many'),
      'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n'.repeat(200_000),
    );
    writeFileSync(join(folder, 'lines', 'one'), 'a'.repeat(8 * MIB));
  }

  /** Plugins and skills whose files are expensive to parse. */
  #createCapabilities() {
    const root = join(this.folder, 'capabilities');
    const texts = hostileYaml();
    for (let index = 0; index < SKILLS; index++) {
      const folder = join(root, 'skills', `skill-${index}`);
      mkdirSync(join(folder, 'agents'), { recursive: true });
      const yaml = texts[index % texts.length];
      writeFileSync(join(folder, 'SKILL.md'), `---\n${yaml}\n---\ntext\n`);
      writeFileSync(join(folder, 'agents', 'openai.yaml'), yaml);
    }
    mkdirSync(join(root, '.codex-plugin'));
    writeFileSync(join(root, '.codex-plugin', 'plugin.json'), deepJson(100_000));
    writeFileSync(join(root, '.mcp.json'), `{${'"a":'.repeat(50_000)}`);
  }

  #createHome() {
    const codex = join(this.home, '.codex');
    mkdirSync(codex, { recursive: true });
    symlinkSync(join(this.folder, 'capabilities', 'skills'), join(codex, 'skills'));
    this.#createPlugins(join(codex, 'plugins', 'cache', 'market'));
    writeFileSync(join(codex, 'config.toml'), hostileToml());
    const functions = Array.from(
      { length: 2_000 },
      (_, index) => `f${index}() { echo '${'x'.repeat(200)}'; }`,
    );
    const variables = Array.from({ length: 2_000 }, (_, index) => `export V${index}='${'y'.repeat(300)}'`);
    writeFileSync(join(this.home, '.profile'), [...functions, ...variables].join('\n'));
  }

  /** Plugins with a long name for many skills, or with servers that take more space in a response than in the file. */
  #createPlugins(cache) {
    const manifests = [
      { name: 'n'.repeat(900_000) },
      { name: 'wide', mcpServers: { a: Array(200_000).fill(0) } },
    ].map((manifest) => JSON.stringify(manifest).replaceAll(',0', ',1e9'));
    for (let index = 0; index < PLUGINS; index++) {
      const folder = join(cache, `plugin-${index}`, '1');
      mkdirSync(join(folder, '.codex-plugin'), { recursive: true });
      writeFileSync(join(folder, '.codex-plugin', 'plugin.json'), manifests[index % manifests.length]);
      for (let skill = 0; skill < 20; skill++) {
        mkdirSync(join(folder, 'skills', `${skill}`), { recursive: true });
        writeFileSync(join(folder, 'skills', `${skill}`, 'SKILL.md'), '---\ndescription: text\n---\n');
      }
    }
  }

  async #startWebServer() {
    const body = Buffer.alloc(16 * MIB);
    const headers = Object.fromEntries(
      Array.from({ length: RESPONSE_HEADERS }, (_, index) => [`x-${index}`, 'v'.repeat(100)]),
    );
    this.#server = createServer({ maxHeaderSize: 4 * MIB }, (request, response) => {
      request.resume();
      request.on('end', () => {
        if (request.url === '/headers') response.writeHead(200, headers).end();
        else if (request.url === '/redirect')
          response.writeHead(302, { location: `/${'%'.repeat(200_000)}` }).end();
        else if (request.url !== '/never') response.end(body);
      });
    });
    this.#server.maxHeadersCount = 0;
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.web = `http://127.0.0.1:${this.#server.address().port}`;
  }
}

/** A program that waits until it is killed. */
export const IDLE_PROGRAM = ['/bin/sleep', '1000'];

/** JSON with this many nested arrays. */
export function deepJson(levels) {
  return `${'['.repeat(levels)}${']'.repeat(levels)}`;
}

/** Texts that make YAML parsers slow: aliases of aliases, flow collections, long scalars, many keys, anchors and comments. */
function hostileYaml() {
  const head = 'name: skill\ndescription: text\n';
  const aliases = Array.from({ length: 20 }, (_, index) =>
    index === 0 ? 'a0: &a0 [x,x,x,x,x,x,x,x,x]' : `a${index}: &a${index} [${`*a${index - 1},`.repeat(9)}]`,
  ).join('\n');
  const size = 60_000;
  return [
    `${head}${aliases}`,
    `${head}x: ${'['.repeat(30)}${'1,'.repeat(size / 2)}${']'.repeat(30)}`,
    `${head}x: ${'{a: '.repeat(size / 5)}`,
    `${head}${Array.from({ length: size / 8 }, (_, index) => `k${index}:`).join('\n')}`,
    `${head}x: "${'\\u0041'.repeat(size / 7)}"`,
    `${head}x: |\n${' \n'.repeat(size / 3)}`,
    `${head}${'? '.repeat(size / 3)}`,
    `${head}${'- '.repeat(size / 3)}`,
    `${head}x: ${'&a '.repeat(size / 4)}`,
    `${head}${'#\n'.repeat(size / 3)}`,
    `${head}x: ${'!'.repeat(size)}`,
    `${head}x: ${"'".repeat(size)}`,
    `name: ${'n'.repeat(size)}`,
    `${head}t: &t {type: a, value: b, description: "${'a '.repeat(size / 2 - 4_000)}"}\ndependencies: {tools: [${'*t,'.repeat(1_300)}]}`,
  ];
}

/** A configuration file of nearly the largest size with many tables, dotted keys and long strings. */
function hostileToml() {
  const keys = Array.from({ length: 4_000 }, (_, index) => `k${index} = ${index}`);
  const dotted = Array.from({ length: 500 }, (_, index) => `x.y${index}.z = 1`);
  const tables = Array.from(
    { length: 500 },
    (_, index) => `[a.b${index}.c.d.e.f.g.h]\nk = [${'1,'.repeat(10)}]`,
  );
  const text = `text = "${'\\u0041'.repeat(2_000)}"`;
  return `${[...keys, ...dotted, text, ...tables].join('\n')}\n`;
}
