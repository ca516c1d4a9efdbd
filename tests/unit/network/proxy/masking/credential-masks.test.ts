import { describe, expect, test } from 'vitest';
import { CredentialMasks } from '../../../../../src/network/proxy/masking/credential-masks.ts';
import {
  MAX_MASK_LENGTH,
  MAX_MASKS,
  MAX_PROVIDER_ENTRIES,
  MAX_PROVIDERS,
} from '../../../../../src/network/proxy/masking/limits.ts';
import type { ProviderSettings } from '../../../../../src/network/proxy/masking/provider.ts';
import { unmask } from '../../../../../src/network/proxy/masking/unmask.ts';

const GITHUB = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789';
const OPENAI = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789abcdefghijkl';
const ACME = 'acme_abcdefghijklmnopqrstuvwx';

const acme: ProviderSettings = {
  env: ['ACME_KEY', 'ACME_OTHER_KEY'],
  patterns: ['acme_[a-z]{24}'],
  url_prefixes: ['https://acme.test/v1'],
  auth: [],
};

const base64 = (text: string) => Buffer.from(text).toString('base64');
const decoded = (text: string) => Buffer.from(text, 'base64').toString('latin1');

/** The headers sent for a request. */
function sent(masks: CredentialMasks, url: string, name: string, value: string, method = 'GET'): string {
  const { protocol, hostname, port, pathname } = new URL(url);
  const scheme = protocol === 'https:' ? 'https' : 'http';
  const headers = new Map([[name.toLowerCase(), [name, [value]] as [string, string[]]]]);
  const place = { scheme, host: hostname, port: Number(port) || 443, path: pathname } as const;
  unmask(masks, headers, place, method);
  return headers.get(name.toLowerCase())?.[1].join() ?? '';
}

const bearer = (masks: CredentialMasks, url: string, mask: string | undefined) =>
  sent(masks, url, 'Authorization', `Bearer ${mask}`).replace('Bearer ', '');

describe('cover', () => {
  test('masks credentials with texts of the same format', () => {
    const env = new CredentialMasks({ acme }).cover({
      GH_TOKEN: GITHUB,
      OPENAI_API_KEY: OPENAI,
      ACME_KEY: ACME,
      A: 'b',
    });
    expect(env).toMatchObject({
      GH_TOKEN: expect.stringMatching(/^ghp_masked[A-Za-z0-9]{30}$/),
      OPENAI_API_KEY: expect.stringMatching(/^sk-proj-masked[A-Za-z0-9]{42}$/),
      ACME_KEY: expect.stringMatching(/^acme_[a-z]{24}$/),
      A: 'b',
    });
  });

  test.each([
    ['in the middle of a value', `https://me:${GITHUB}@github.com/a`],
    ['as the whole of one', GITHUB],
    ['twice', `${GITHUB} ${GITHUB}`],
  ])('masks a credential of one variable everywhere: %s', (_name, value) => {
    const env = new CredentialMasks({}).cover({ GH_TOKEN: GITHUB, OTHER: value, MY_PATH: value });
    expect(JSON.stringify(env)).not.toContain(GITHUB);
    expect(env.OTHER).toBe(value.replaceAll(GITHUB, env.GH_TOKEN ?? ''));
    expect(env.MY_PATH).toBe(env.OTHER);
  });

  test('masks credentials that only match a pattern', () => {
    const masks = new CredentialMasks({ acme });
    const env = masks.cover({ A: `x=${ACME}`, B: GITHUB, C: `key ${OPENAI}.` });
    expect(env.A).toMatch(/^x=acme_[a-z]{24}$/);
    for (const credential of [ACME, GITHUB, OPENAI]) expect(JSON.stringify(env)).not.toContain(credential);
    expect(bearer(masks, 'https://api.github.com/', env.B)).toBe(GITHUB);
  });

  test.each([
    ['is short', 'x'],
    ['has spaces around it', `  ${GITHUB}  `],
    ['has a line break', 'ghp_a\nb'],
    ['is no text that a header can have', 'gh\u{1F600}'],
    ['is very long', 'g'.repeat(5000)],
  ])('masks a credential that %s', (_name, value) => {
    const env = new CredentialMasks({}).cover({ GITHUB_TOKEN: value });
    expect(env.GITHUB_TOKEN).toMatch(/^ghp_masked[A-Za-z0-9]{30,}$/);
    expect(env.GITHUB_TOKEN?.length).toBeLessThanOrEqual(MAX_MASK_LENGTH);
  });

  test.each([
    ['does not have its shape', ['other_[a-z]{24}']],
    ['is the only one of its shape', [ACME]],
    ['has a shape of short texts too', ['acme_(?:[a-z]{24}|x)']],
  ])('masks a credential that %s', (_name, patterns) => {
    const env = new CredentialMasks({ acme: { ...acme, patterns } }).cover({ ACME_KEY: ACME });
    expect(env.ACME_KEY).not.toBe(ACME);
    expect(env.ACME_KEY?.length).toBeGreaterThanOrEqual(16);
  });

  test.each([
    ['base64 of a user and a password', `Basic ${base64(`me:${GITHUB}`)}`],
    ['base64 without padding', base64(`me:${GITHUB}`).replace(/=+$/, '')],
    ['base64 for URLs', `x.${Buffer.from(`\xff\xfe${GITHUB}?>`, 'latin1').toString('base64url')}.y`],
    ['base64 in JSON', JSON.stringify({ auths: { 'ghcr.io': { auth: base64(`x:${GITHUB}`) } } })],
  ])('masks a credential in %s', (_name, value) => {
    for (const known of [{ GH_TOKEN: GITHUB }, {}]) {
      const masks = new CredentialMasks({});
      const env = masks.cover({ ...known, OTHER: value });
      const plain = (text = '') => (text.match(/[\w+/-]{22,}/g) ?? []).map(decoded).join();
      expect(plain(value)).toContain(GITHUB);
      expect(plain(env.OTHER)).not.toContain(GITHUB);
      expect(masks.all).toHaveLength(1);
      expect(plain(env.OTHER)).toContain(masks.all[0]?.text);
      expect(plain(env.OTHER).replace(masks.all[0]?.text ?? '', GITHUB)).toBe(plain(value));
      expect(env.OTHER).toHaveLength(value.length);
      expect(masks.cover(env)).toEqual(env);
    }
  });

  test.each(['a', 'ab', 'abc', 'abcd'])('masks a credential in base64 after %s and a slash', (before) => {
    for (const known of [{ GH_TOKEN: GITHUB }, {}]) {
      const env = new CredentialMasks({}).cover({ ...known, URL: `https://${before}/${base64(GITHUB)}?x` });
      const [, inside = ''] =
        new RegExp(`^https://${before}/([A-Za-z0-9+/]+={0,2})[?]x$`).exec(env.URL ?? '') ?? [];
      expect(decoded(inside)).toMatch(/^ghp_masked\w{30}$/);
    }
  });

  test.each(['\n', '\r\n'])('masks a credential in base64 in lines that end with %j', (end) => {
    const long = `github_pat_${'abcdefghij'.repeat(8)}`;
    const lines = base64(`me:${long}`).match(/.{1,76}/g) ?? [];
    for (const known of [{ GH_TOKEN: long }, {}]) {
      const env = new CredentialMasks({}).cover({ ...known, OTHER: lines.join(end) });
      const masked = env.OTHER?.split(end) ?? [];
      expect(masked.map(({ length }) => length)).toEqual(lines.map(({ length }) => length));
      expect(decoded(masked.join(''))).toMatch(/^me:github_pat_masked\w{74}$/);
      expect(decoded(masked.join(''))).not.toContain('abcdefghij');
    }
  });

  test('masks a non-ASCII credential in base64', () => {
    const masks = new CredentialMasks({ acme });
    const env = masks.cover({ ACME_KEY: 'é'.repeat(16), OTHER: base64(`me:${'é'.repeat(16)}`) });
    expect(decoded(env.OTHER ?? '')).toBe(`me:${env.ACME_KEY}`);
  });

  test('masks a credential escaped as in URLs and JSON', () => {
    const credential = 'a/b"c@d\\e&fghijklmnop';
    const url = (text: string) => `https://me:${encodeURIComponent(text)}@a.test/`;
    const masks = new CredentialMasks({ acme: { ...acme, patterns: ['x'] } });
    const env = masks.cover({
      ACME_KEY: credential,
      URL: url(credential),
      SMALL: url(credential).replace(/%../g, (code) => code.toLowerCase()),
      JSON: JSON.stringify({ key: credential }),
    });
    const mask = env.ACME_KEY ?? '';
    expect(env).toMatchObject({ URL: url(mask), SMALL: url(mask), JSON: JSON.stringify({ key: mask }) });
  });

  test('uses different masks for different credentials even with a narrow pattern', () => {
    const shape = { ...acme, patterns: ['acme_(?:abcdefghijkl){2,3}', 'acme_(?:abcdefghijkl){4}'] };
    const [first, second] = [`acme_${'abcdefghijkl'.repeat(2)}`, `acme_${'abcdefghijkl'.repeat(3)}`];
    const env = new CredentialMasks({ acme: shape }).cover({ ACME_KEY: first, ACME_OTHER_KEY: second });
    expect(new Set([first, second, env.ACME_KEY, env.ACME_OTHER_KEY]).size).toBe(4);
  });

  test('ignores inherited properties', () => {
    const settings = { ...acme, env: ['constructor', '__proto__'], url_prefix_from_env: 'toString' };
    const env = new CredentialMasks({ acme: settings }).cover({ A: 'b' });
    expect(Object.keys(env).sort()).toEqual([
      'A',
      'CODEX_NETWORK_PROXY_BROKERED_CREDENTIALS',
      'CODEX_NETWORK_PROXY_CREDENTIAL_BROKER_ACTIVE',
    ]);
  });

  test('keeps empty variables, and values that equal a short credential by chance', () => {
    const env = new CredentialMasks({}).cover({
      GH_TOKEN: 'short',
      OPENAI_API_KEY: ' ',
      FLAG: 'short',
      TEXT: 'shortly',
    });
    expect(env).toMatchObject({ OPENAI_API_KEY: ' ', FLAG: 'short', TEXT: 'shortly' });
  });

  test('names the variables with masks', () => {
    const env = new CredentialMasks({ acme }).cover({ ACME_KEY: ACME, COPY: `a ${ACME}` });
    expect(env.CODEX_NETWORK_PROXY_CREDENTIAL_BROKER_ACTIVE).toBe('1');
    expect(JSON.parse(env.CODEX_NETWORK_PROXY_BROKERED_CREDENTIALS ?? '')).toEqual([
      ['@alias:ACME_KEY', env.ACME_KEY],
      ['@alias:COPY', env.ACME_KEY],
      ['ACME_KEY', env.ACME_KEY],
    ]);
  });

  test('keeps existing masks when it is applied again, and adds missing ones', () => {
    const masks = new CredentialMasks({ acme });
    const first = masks.cover({ GH_TOKEN: GITHUB });
    expect(masks.cover(first)).toEqual(first);
    const second = masks.cover({ ...first, ACME_KEY: ACME });
    expect(second).toMatchObject({ GH_TOKEN: first.GH_TOKEN });
    expect(JSON.stringify(second)).not.toContain(ACME);
    expect(masks.all).toHaveLength(2);
  });

  test('uses other masks for every program', () => {
    const once = () => new CredentialMasks({ acme }).cover({ ACME_KEY: ACME, GH_TOKEN: GITHUB });
    const [one, two] = [once(), once()];
    expect(one.ACME_KEY).not.toBe(two.ACME_KEY);
    expect(one.GH_TOKEN).not.toBe(two.GH_TOKEN);
  });

  test('rejects too many credentials', () => {
    const letters = (index: number) => String.fromCharCode(97 + (index % 26), 97 + Math.floor(index / 26));
    const keys = (count: number) =>
      Array.from({ length: count }, (_, index) => `acme_${'a'.repeat(22)}${letters(index)}`).join(' ');
    const masks = new CredentialMasks({ acme });
    expect(masks.cover({ A: keys(MAX_MASKS) }).A).not.toContain('acme_aaaaaaaaaa');
    expect(() => new CredentialMasks({ acme }).cover({ A: keys(MAX_MASKS + 1) })).toThrow(
      'more than 256 credentials',
    );
  });
});

describe('a credential is sent', () => {
  test.each([
    ['GH_TOKEN', GITHUB, {}, 'https://api.github.com/user', true],
    ['GITHUB_TOKEN', GITHUB, {}, 'https://uploads.github.com/', true],
    ['GITHUB_TOKEN', GITHUB, {}, 'https://x.ghe.com/', true],
    ['GH_TOKEN', GITHUB, {}, 'https://ghe.com/', false],
    ['GH_TOKEN', GITHUB, {}, 'https://api.github.com:8443/', false],
    ['GH_TOKEN', GITHUB, {}, 'http://api.github.com/', false],
    ['GH_TOKEN', GITHUB, {}, 'https://raw.githubusercontent.com/', false],
    ['GH_TOKEN', GITHUB, { GH_HOST: 'git.test' }, 'https://git.test/', false],
    ['GH_ENTERPRISE_TOKEN', GITHUB, { GH_HOST: 'git.test' }, 'https://git.test/', true],
    ['GH_ENTERPRISE_TOKEN', GITHUB, { GH_HOST: 'git.test:8443' }, 'https://git.test:8443/', true],
    ['GH_ENTERPRISE_TOKEN', GITHUB, { GH_HOST: 'git.test' }, 'https://api.github.com/', false],
    ['GH_ENTERPRISE_TOKEN', GITHUB, { GH_HOST: 'github.com' }, 'https://github.com/', false],
    ['GH_ENTERPRISE_TOKEN', GITHUB, { GH_HOST: '*.test' }, 'https://git.test/', false],
    ['GH_ENTERPRISE_TOKEN', GITHUB, { GH_HOST: 'a@git.test' }, 'https://git.test/', false],
    ['GH_ENTERPRISE_TOKEN', GITHUB, {}, 'https://git.test/', false],
    ['OPENAI_API_KEY', OPENAI, {}, 'https://api.openai.com/v1', true],
    ['OPENAI_API_KEY', OPENAI, { OPENAI_BASE_URL: 'https://gate.test/openai' }, 'https://gate.test/v1', true],
    ['OPENAI_API_KEY', OPENAI, { OPENAI_BASE_URL: 'http://gate.test/openai' }, 'https://gate.test/v1', false],
    ['OPENAI_API_KEY', OPENAI, { OPENAI_BASE_URL: 'https://me@gate.test/' }, 'https://gate.test/v1', false],
    ['OPENAI_API_KEY', OPENAI, { OPENAI_BASE_URL: 'nonsense' }, 'https://api.openai.com/v1', true],
    ['ACME_KEY', ACME, {}, 'https://acme.test/v1/x', true],
    ['ACME_OTHER_KEY', ACME, {}, 'https://acme.test/v1/x', true],
    ['ACME_KEY', ACME, {}, 'https://acme.test/v2', false],
  ])('%s %#: to its destination and nowhere else', (variable, credential, more, url, expected) => {
    const masks = new CredentialMasks({ acme });
    const env = masks.cover({ ...more, [variable]: credential });
    expect(env[variable]).not.toBe(credential);
    expect(bearer(masks, url, env[variable])).toBe(expected ? credential : env[variable]);
  });

  test('to no other destination because another variable contains it', () => {
    const masks = new CredentialMasks({});
    const env = masks.cover(
      masks.cover({ GH_ENTERPRISE_TOKEN: GITHUB, GH_HOST: 'git.test', OTHER: `a ${GITHUB}` }),
    );
    expect(bearer(masks, 'https://git.test/', env.GH_ENTERPRISE_TOKEN)).toBe(GITHUB);
    expect(bearer(masks, 'https://github.com/', env.GH_ENTERPRISE_TOKEN)).toBe(env.GH_ENTERPRISE_TOKEN);
  });

  test('to the destinations of all of its variables', () => {
    const masks = new CredentialMasks({});
    const env = masks.cover({ GH_TOKEN: GITHUB, GH_ENTERPRISE_TOKEN: GITHUB, GH_HOST: 'git.test' });
    expect(bearer(masks, 'https://git.test/', env.GH_TOKEN)).toBe(GITHUB);
    expect(bearer(masks, 'https://github.com/', env.GH_ENTERPRISE_TOKEN)).toBe(GITHUB);
  });

  test('to the destination that a variable of the program names, unless that has a wildcard', () => {
    const settings = { ...acme, url_prefixes: [], url_prefix_from_env: 'ACME_URL' };
    const at = (ACME_URL: string) => {
      const masks = new CredentialMasks({ acme: settings });
      const env = masks.cover({ ACME_KEY: ACME, ACME_URL });
      return bearer(masks, 'https://a.acme.test/v1/x', env.ACME_KEY) === ACME;
    };
    expect(['https://a.acme.test/v1', 'a.acme.test'].map(at)).toEqual([true, true]);
    expect(['*.acme.test', 'https://*.acme.test', 'http://a.acme.test', ''].map(at)).toEqual(
      Array(4).fill(false),
    );
  });

  test('as a user, a password, both, or the whole pair', () => {
    const masks = new CredentialMasks({
      acme: { ...acme, auth: ['basic'], patterns: ['acme_[a-z]{24}', '[a-z]{9}:[a-z]{9}'] },
    });
    const pair = 'abcdefghi:abcdefghi';
    const env = masks.cover({ ACME_KEY: ACME, ACME_OTHER_KEY: pair });
    const basic = (text: string) => {
      const value = sent(
        masks,
        'https://acme.test/v1',
        'Authorization',
        `Basic ${Buffer.from(text).toString('base64')}`,
      );
      return Buffer.from(value.replace('Basic ', ''), 'base64').toString();
    };
    expect(basic(`${env.ACME_KEY}:x`)).toBe(`${ACME}:x`);
    expect(basic(`x:${env.ACME_KEY}`)).toBe(`x:${ACME}`);
    expect(basic(`${env.ACME_KEY}:${env.ACME_KEY}`)).toBe(`${ACME}:${ACME}`);
    expect(env.ACME_OTHER_KEY).toMatch(/^[a-z]{9}:[a-z]{9}$/);
    expect(basic(env.ACME_OTHER_KEY ?? '')).toBe(pair);
    expect(basic(`x:y${env.ACME_KEY}`)).toBe(`x:y${env.ACME_KEY}`);
    expect(bearer(masks, 'https://acme.test/v1', env.ACME_KEY)).toBe(env.ACME_KEY);
  });

  test('in time linear in the header', () => {
    const masks = new CredentialMasks({ acme });
    masks.cover({ ACME_KEY: ACME });
    const value = `Bearer a${' '.repeat(30_000)}b`;
    // Quadratic time would take minutes.
    for (let count = 0; count < 200; count++) {
      expect(sent(masks, 'https://acme.test/v1', 'Authorization', value)).toBe(value);
    }
  });

  test('never with a character that ends a header', () => {
    const masks = new CredentialMasks({ acme });
    const env = masks.cover({ ACME_KEY: 'a\r\nHost: evil' });
    expect(bearer(masks, 'https://acme.test/v1', env.ACME_KEY)).toBe(env.ACME_KEY);
  });
});

describe('a provider', () => {
  test.each([
    [{ env: [] }, 'no environment variable'],
    [{ patterns: [] }, 'no pattern'],
    [{ url_prefixes: [] }, 'no URL prefix'],
    [{ env: ['A-B'] }, 'invalid environment variable name: "A-B"'],
    [{ env: ['GH_TOKEN'] }, 'GH_TOKEN already belongs to another provider'],
    [{ env: ['OPENAI_BASE_URL'] }, 'OPENAI_BASE_URL already belongs to another provider'],
    [{ url_prefix_from_env: 'A-B' }, 'invalid environment variable name: "A-B"'],
    [{ url_prefix_from_env: 'ACME_KEY' }, 'cannot be a credential and a URL prefix'],
    [{ url_prefixes: ['http://acme.test'] }, 'over http to this machine'],
    [{ patterns: ['('] }, 'a `(` has no `)`'],
    [{ auth: ['header'] as const }, 'header is required if'],
    [{ header: 'x-key' }, 'header is required if'],
    [{ prefix: 'K ' }, 'prefix requires a header'],
    [{ auth: ['header'] as const, header: 'x key' }, 'header name is invalid'],
    [{ auth: ['header'] as const, header: 'Host' }, 'cannot carry credentials'],
    [{ auth: ['header'] as const, header: 'x-key', prefix: 'a\n' }, 'a header cannot contain'],
    [
      { env: Array.from({ length: MAX_PROVIDER_ENTRIES + 1 }, (_, index) => `A${index}`) },
      'more than 64 env',
    ],
    [{ patterns: Array(MAX_PROVIDER_ENTRIES + 1).fill('abcd') }, 'more than 64 patterns'],
    [{ url_prefixes: Array(MAX_PROVIDER_ENTRIES + 1).fill('a.test') }, 'more than 64 url_prefixes'],
  ])('that is invalid is rejected with its name: %j', (changes, message) => {
    const described = { 'my acme': { ...acme, ...changes } };
    expect(() => new CredentialMasks(described)).toThrow('credentialProviders["my acme"]: ');
    expect(() => new CredentialMasks(described)).toThrow(message);
  });

  test('is rejected when all patterns together are too large', () => {
    const patterns = Array(MAX_PROVIDER_ENTRIES).fill('a{1000}{8}');
    expect(() => new CredentialMasks({ acme: { ...acme, patterns } })).toThrow(
      'credentialProviders["acme"]: the patterns together are too large',
    );
    const one = (index: number) => ({ ...acme, env: [`A${index}`], patterns: ['a{1000}{8}'] });
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`p${index}`, one(index)]));
    expect(() => new CredentialMasks(many)).toThrow('the patterns together are too large');
  });

  test('must not share variables with another one, and their number is limited', () => {
    expect(() => new CredentialMasks({ acme, again: acme })).toThrow(
      'credentialProviders["again"]: ACME_KEY already belongs to another provider',
    );
    const many = Object.fromEntries(
      Array.from({ length: MAX_PROVIDERS + 1 }, (_, index) => [`p${index}`, { ...acme, env: [`A${index}`] }]),
    );
    expect(() => new CredentialMasks(many)).toThrow('more than 64');
  });
});
