import { Destination } from './destination.ts';
import { CredentialPattern } from './patterns/credential-pattern.ts';
import type { CredentialProvider, Environment } from './provider.ts';

const ENTERPRISE = ['GH_ENTERPRISE_TOKEN', 'GITHUB_ENTERPRISE_TOKEN'];
const GITHUB_CLOUD = ['api.github.com', 'github.com', 'uploads.github.com', '*.ghe.com'].map(
  (host) => new Destination(host),
);
const GITHUB_PREFIXES = ['github_pat_', 'ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'];
const GITHUB_LENGTH = 40;

const GITHUB: CredentialProvider = {
  variables: ['GH_TOKEN', 'GITHUB_TOKEN', ...ENTERPRISE],
  patterns: GITHUB_PREFIXES.map((prefix) => shape(prefix, '[A-Za-z0-9_]', GITHUB_LENGTH)),
  methods: new Set(['bearer', 'token', 'basic']),
  header: null,
  destinations: (variable, env) => (ENTERPRISE.includes(variable) ? enterpriseHost(env) : GITHUB_CLOUD),
  mask: { prefixes: GITHUB_PREFIXES, usual: 'ghp_', length: GITHUB_LENGTH },
};

const OPENAI_API = new Destination('api.openai.com');
const OPENAI_PREFIXES = ['sk-proj-', 'sk-svcacct-', 'sk-admin-'];
const OPENAI_LENGTH = 51;

const OPENAI: CredentialProvider = {
  variables: ['OPENAI_API_KEY'],
  patterns: OPENAI_PREFIXES.map((prefix) => shape(prefix, '[A-Za-z0-9_-]', OPENAI_LENGTH)),
  methods: new Set(['bearer', 'token', 'basic']),
  header: null,
  destinations: (_, env) => [OPENAI_API, ...hostOfUrl(env.OPENAI_BASE_URL)],
  // Keys of other companies begin with `sk-` too, so it is not a pattern.
  mask: { prefixes: OPENAI_PREFIXES, usual: 'sk-', length: OPENAI_LENGTH },
};

/** The providers of every masked program, whatever its client describes. */
export const KNOWN_PROVIDERS: readonly CredentialProvider[] = [GITHUB, OPENAI];

/** Variables that a client must not redefine: the credentials, and their destinations. */
export const KNOWN_VARIABLES: ReadonlySet<string> = new Set([
  ...GITHUB.variables,
  ...OPENAI.variables,
  'GH_HOST',
  'OPENAI_BASE_URL',
]);

function shape(prefix: string, characters: string, length: number): CredentialPattern {
  return new CredentialPattern(`${prefix}${characters}{${length - prefix.length},}`);
}

/** Excludes hosts of GitHub's cloud, whose tokens are in other variables. */
function enterpriseHost({ GH_HOST = '' }: Environment): Destination[] {
  if (/[/\\@?#*]/.test(GH_HOST)) return [];
  return destinationOf(`https://${GH_HOST.trim()}`).filter(
    ({ host }) => !GITHUB_CLOUD.some((cloud) => cloud.isAt(host, 443)),
  );
}

/** The whole host: programs append several paths to such a URL. */
function hostOfUrl(url: string | undefined): Destination[] {
  const [, origin] = /^(https:\/\/[^/?#\\@]+)(?:[/?#]|$)/i.exec(url?.trim() ?? '') ?? [];
  return origin === undefined ? [] : destinationOf(origin);
}

/** Empty for an invalid host: a program's variables may contain anything. */
function destinationOf(text: string): Destination[] {
  try {
    return [new Destination(text)];
  } catch {
    return [];
  }
}
