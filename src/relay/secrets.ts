import type { AuthHeaders } from './registry-auth.ts';

/**
 * Makes a service's text safe to show: replaces secrets by `***`. Returns an empty text when it still repeats one in another form, as
 * {@link revealsSecret} finds.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const longestFirst = secrets.filter((secret) => secret !== '').sort((a, b) => b.length - a.length);
  const shown = longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  return revealsSecret(shown, secrets) ? '' : shown;
}

/** Whether a text repeats a secret: as it is, escaped (JSON, percent, HTML), or as base64, base64url or hex. Ignores case and blanks. */
export function revealsSecret(text: string, secrets: readonly string[]): boolean {
  const needles = secrets.flatMap(formsOf);
  return decodings(text).some((form) => needles.some((needle) => form.includes(needle)));
}

/** The secrets in the headers of a request: every value that is not known to be public, and the signature in an authorization. */
export function secretsOf(headers: AuthHeaders): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (PUBLIC_HEADERS.has(name.toLowerCase())) return [];
    const secret = /^authorization$/i.test(name) ? value.slice(value.indexOf(' ') + 1) : value;
    return [secret, ...signaturesIn(secret), ...signaturesIn(Buffer.from(secret, 'base64url').toString())];
  });
}

/** The secrets in the query of a URL. Short values are not secrets. */
export function secretsOfUrl(url: string): string[] {
  return [...new URL(url).searchParams.values()].filter((value) => value.length >= MIN_URL_SECRET_CHARS);
}

const PUBLIC_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'chatgpt-account-id',
  'content-type',
  'x-amz-date',
  'x-openai-fedramp',
]);
const MIN_URL_SECRET_CHARS = 8;
/** Rounds of decoding. A text may be escaped more than once, such as JSON in JSON. */
const MAX_DECODINGS = 4;
/** Shorter pieces of base64 occur by chance. */
const MIN_BASE64_CHARS = 4;

/** Finds `Signature=…` of AWS, and `"signature":"…"` of an agent's assertion. */
function signaturesIn(text: string): string[] {
  return [...text.matchAll(/signature"?[=:]"?([^",\s]+)/gi)].map((match) => match[1]!);
}

function formsOf(secret: string): string[] {
  if (secret === '') return [];
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].map((offset) => base64At(bytes, offset));
  return [
    ...decodings(secret),
    comparable(bytes.toString('hex')),
    ...base64.filter((form) => form.length >= MIN_BASE64_CHARS).map(comparable),
  ];
}

/** The base64 digits that depend only on these bytes, after `offset` other bytes. */
function base64At(bytes: Buffer, offset: number): string {
  const digits = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
  return digits.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
}

/** The text, and what it is after each round of decoding. */
function decodings(text: string): string[] {
  const forms = [comparable(text)];
  for (let current = text; forms.length <= MAX_DECODINGS; ) {
    const next = current.replace(ESCAPES, unescaped);
    if (next === current) break;
    forms.push(comparable(next));
    current = next;
  }
  return forms;
}

/** Both alphabets of base64 become one. */
function comparable(text: string): string {
  return text.replace(/\s+/g, '').replaceAll('-', '+').replaceAll('_', '/').toLowerCase();
}

const ESCAPES =
  /\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|%([0-9a-f]{2})|&#x0*([0-9a-f]{1,5});|&#0*(\d{1,6});|&(amp|lt|gt|quot|apos);|\\(.)/gi;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescaped(_match: string, ...groups: (string | undefined)[]): string {
  const [u, x, percent, entityHex, entity, name, char] = groups;
  if (name !== undefined) return ENTITIES[name.toLowerCase()]!;
  const hex = u ?? x ?? percent ?? entityHex;
  if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
  return entity === undefined ? char! : String.fromCodePoint(Number(entity));
}
