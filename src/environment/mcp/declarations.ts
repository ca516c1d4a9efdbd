import { isObject } from '../../base/is-object.ts';
import type { DiscoveredRoot } from '../../client/backend.ts';
import { nativePathOfText } from '../../files/native-path.ts';
import { escapeBytes } from '../../files/path-uri.ts';
import { uriOf } from '../capability-roots/selected-root.ts';
import { LOCAL_ENVIRONMENT_ID } from '../provider.ts';
import type { McpServer } from './open-transport.ts';

/** An MCP server that a plugin declares. */
interface McpDeclaration {
  readonly name: string;
  readonly server: McpServer;
}

interface Declarations {
  readonly servers: readonly McpDeclaration[];
  /** Messages for users: which declarations are unusable, and why. */
  readonly warnings: readonly string[];
}

/**
 * Returns the MCP servers that the plugin of a root declares: in its manifest, or in the file that the manifest names. Servers run
 * in the root's environment; programs run in the root unless they declare another directory. An unusable declaration does not
 * affect the others.
 */
export function declaredServers(discovered: DiscoveredRoot, environmentId: string): Declarations {
  const known = parsedByRoot.get(discovered);
  if (known !== undefined) return known;
  const parsed = parseDeclarations(discovered, environmentId);
  parsedByRoot.set(discovered, parsed);
  return parsed;
}

/** By the cached object, which stays the same as long as the root is not discovered again. */
const parsedByRoot = new WeakMap<DiscoveredRoot, Declarations>();

function parseDeclarations({ plugin, id, path }: DiscoveredRoot, environmentId: string): Declarations {
  const warnings: string[] = [];
  const servers: McpDeclaration[] = [];
  if (plugin === null) return { servers, warnings };
  try {
    for (const [name, value] of Object.entries(declarationsOf(plugin))) {
      try {
        const server = parseServer(value, { root: path, environmentId });
        if (server !== null) servers.push({ name, server });
      } catch (error) {
        if (!(error instanceof DeclarationError)) throw error;
        warnings.push(`MCP server '${name}' of plugin '${id}' is skipped: ${error.message}`);
      }
    }
  } catch (error) {
    if (!(error instanceof DeclarationError)) throw error;
    warnings.push(`the MCP servers of plugin '${id}' are skipped: ${error.message}`);
  }
  return { servers, warnings };
}

/** The declaration cannot be used. The message says why. */
class DeclarationError extends Error {}

type Members = Readonly<Record<string, unknown>>;

/** The file has the servers by name, with or without an object `mcpServers` around them. */
function declarationsOf({ manifest, mcpConfig }: NonNullable<DiscoveredRoot['plugin']>): Members {
  const { mcpServers: inline } = parseObject(manifest.contents) ?? {};
  if (isObject(inline)) return inline;
  if (mcpConfig === null) return {};
  const file = parseObject(mcpConfig.contents);
  if (file === null) throw new DeclarationError(`${mcpConfig.path} is not a JSON object`);
  return isObject(file.mcpServers) ? file.mcpServers : file;
}

interface Origin {
  readonly root: string;
  readonly environmentId: string;
}

/** Returns null for a server that is switched off. */
function parseServer(value: unknown, origin: Origin): McpServer | null {
  if (!isObject(value)) throw new DeclarationError('it is not an object');
  if (value.enabled === false) return null;
  const type = textOf(value, 'type');
  if (type !== undefined && !TYPES.has(type)) {
    throw new DeclarationError(`its type '${type}' is not supported; use one of ${[...TYPES].join(', ')}`);
  }
  const [command, url] = [textOf(value, 'command'), textOf(value, 'url')];
  if ((command === undefined) === (url === undefined)) {
    throw new DeclarationError(
      url === undefined ? "it has neither 'command' nor 'url'" : "it has both 'command' and 'url'",
    );
  }
  const { environmentId } = origin;
  return command === undefined
    ? { environmentId, ...parseWebServer(value, url!) }
    : { environmentId, command, ...parseProgram(value, origin) };
}

const TYPES = new Set(['stdio', 'http', 'streamable_http', 'streamable-http']);

function parseProgram(members: Members, { root, environmentId }: Origin) {
  const env = textsOf(members, 'env');
  const envVars = variablesOf(members, environmentId);
  return {
    args: listOf(members, 'args'),
    cwd: cwdOf(members, root),
    ...(env && { env }),
    ...(envVars.length > 0 && { envVars }),
  };
}

function parseWebServer(members: Members, url: string) {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) {
    throw new DeclarationError("its 'url' is not an HTTP URL");
  }
  const headers = textsOf(members, 'http_headers') ?? textsOf(members, 'headers');
  const envHeaders = textsOf(members, 'env_http_headers');
  const bearerTokenEnvVar = textOf(members, 'bearer_token_env_var');
  return {
    url,
    ...(headers && { headers }),
    ...(envHeaders && { envHeaders }),
    ...(bearerTokenEnvVar !== undefined && { bearerTokenEnvVar }),
  };
}

/** A relative directory is below the root. */
function cwdOf(members: Members, root: string): string {
  const cwd = textOf(members, 'cwd') ?? '.';
  const absolute = uriOf(cwd);
  if (absolute !== null) return absolute;
  const names = cwd.split('/').filter((name) => name !== '' && name !== '.');
  if (cwd.split(/[/\\]/).includes('..') || cwd.startsWith('\\') || /^[A-Za-z]:/.test(cwd)) {
    throw new DeclarationError(`its 'cwd' must remain below ${root}`);
  }
  return [root.replace(/\/$/, ''), ...names.map((name) => escapeBytes(nativePathOfText(name)))].join('/');
}

/** The names of variables that the executor passes on. */
function variablesOf(members: Members, environmentId: string): readonly string[] {
  const { env_vars: list = [] } = members;
  if (!Array.isArray(list)) throw new DeclarationError("its 'env_vars' is not a list");
  const own = environmentId === LOCAL_ENVIRONMENT_ID ? 'local' : 'remote';
  return list.map((item: unknown) => {
    const { name, source = null } = isObject(item) ? item : { name: item };
    if (typeof name !== 'string' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw new DeclarationError("its 'env_vars' has an item that is not the name of a variable");
    }
    if (source !== null && source !== own) {
      throw new DeclarationError(`variable '${name}' of its 'env_vars' must have the source '${own}'`);
    }
    return name;
  });
}

function textOf(members: Members, key: string): string | undefined {
  const value = members[key] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw new DeclarationError(`its '${key}' is ${value === '' ? 'empty' : 'not a text'}`);
}

function textsOf(members: Members, key: string): Readonly<Record<string, string>> | undefined {
  const value = members[key] ?? undefined;
  if (value === undefined) return undefined;
  if (isObject(value) && Object.values(value).every((item) => typeof item === 'string')) {
    return value as Record<string, string>;
  }
  throw new DeclarationError(`its '${key}' is not an object of texts`);
}

function listOf(members: Members, key: string): readonly string[] {
  const value = members[key] ?? [];
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw new DeclarationError(`its '${key}' is not a list of texts`);
}

function parseObject(text: string): Members | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
