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
  // Other companies' keys begin with it too, so that it is no pattern.
  mask: { prefixes: OPENAI_PREFIXES, usual: 'sk-', length: OPENAI_LENGTH },
};

/** The providers that every masked program has, whatever its client describes. */
export const KNOWN_PROVIDERS: readonly CredentialProvider[] = [GITHUB, OPENAI];

/** Variables that no client can describe anew: the credentials, and what says where they are sent. */
export const KNOWN_VARIABLES: ReadonlySet<string> = new Set([
  ...GITHUB.variables,
  ...OPENAI.variables,
  'GH_HOST',
  'OPENAI_BASE_URL',
]);

function shape(prefix: string, characters: string, length: number): CredentialPattern {
  return new CredentialPattern(`${prefix}${characters}{${length - prefix.length},}`);
}

/** A host of the cloud is none: its tokens are in other variables. */
function enterpriseHost({ GH_HOST = '' }: Environment): Destination[] {
  if (/[/\\@?#*]/.test(GH_HOST)) return [];
  return destinationOf(`https://${GH_HOST.trim()}`).filter(
    ({ host }) => !GITHUB_CLOUD.some((cloud) => cloud.isAt(host, 443)),
  );
}

/** The whole host: programs put several paths behind such a URL. */
function hostOfUrl(url: string | undefined): Destination[] {
  const [, origin] = /^(https:\/\/[^/?#\\@]+)(?:[/?#]|$)/i.exec(url?.trim() ?? '') ?? [];
  return origin === undefined ? [] : destinationOf(origin);
}

/** None for what is no host: the variables are the program's and may hold anything. */
function destinationOf(text: string): Destination[] {
  try {
    return [new Destination(text)];
  } catch {
    return [];
  }
}
