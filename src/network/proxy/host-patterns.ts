import { isIPv6 } from 'node:net';
import { domainToASCII } from 'node:url';
import { NetworkError } from '../errors.ts';
import { type Host, parseHost } from './host.ts';
import { MAX_GLOB_CHARACTERS, MAX_PATTERN_LENGTH, MAX_PATTERNS } from './limits.ts';

/**
 * A set of host patterns: `a.example` matches that host, `*.example` everything below it, `**.example` both, and `*` everything.
 * Elsewhere `*` matches any characters including dots, and `?` matches one.
 */
export class HostPatterns {
  readonly #exact = new Set<string>();
  /** The domains of patterns such as `*.example`. */
  readonly #domains = new Set<string>();
  readonly #globs: string[] = [];
  #globCharacters = 0;

  /** Throws NetworkError on an invalid pattern. */
  constructor(patterns: readonly string[]) {
    if (patterns.length > MAX_PATTERNS) {
      throw new NetworkError(
        'invalid',
        `${patterns.length} host patterns exceed the limit of ${MAX_PATTERNS}`,
      );
    }
    for (const text of patterns) this.#add(text);
  }

  /** Whether a pattern matches the host's name or its address. */
  covers(host: Host): boolean {
    return isAny(
      host,
      (name) => this.#exact.has(name) || this.#isBelowDomain(name) || this.#matchesGlob(name),
    );
  }

  /** Whether a pattern without wildcards equals the host. */
  names(host: Host): boolean {
    return isAny(host, (name) => this.#exact.has(name));
  }

  /** Whether a pattern matches every host. */
  get coversAll(): boolean {
    return this.#globs.includes('*');
  }

  #add(text: string): void {
    const pattern = plainPattern(text);
    const rest = pattern.replace(/^\*\*?\./, '');
    if (rest === '') throw new NetworkError('invalid', 'a host pattern is empty');
    if (rest.includes('**')) {
      throw new NetworkError('invalid', `\`**\` is only allowed at the beginning of a host pattern: ${text}`);
    }
    if (pattern === rest) this.#addPlain(pattern);
    else if (pattern.startsWith('*.')) this.#addDomain(rest);
    else if (rest === '*') this.#addPlain('*');
    else {
      this.#addDomain(rest);
      this.#addPlain(rest);
    }
  }

  #addDomain(domain: string): void {
    if (WILDCARD.test(domain)) this.#addPlain(`*.${domain}`);
    else this.#domains.add(domain);
  }

  #addPlain(pattern: string): void {
    if (!WILDCARD.test(pattern)) {
      this.#exact.add(pattern);
      return;
    }
    this.#globs.push(pattern);
    this.#globCharacters += pattern.length;
    if (this.#globCharacters > MAX_GLOB_CHARACTERS) {
      throw new NetworkError(
        'invalid',
        `host patterns with wildcards other than \`*.\` at the beginning have more than ${MAX_GLOB_CHARACTERS} characters in all`,
      );
    }
  }

  #isBelowDomain(name: string): boolean {
    if (this.#domains.size === 0) return false;
    for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1)) {
      if (this.#domains.has(name.slice(dot + 1))) return true;
    }
    return false;
  }

  #matchesGlob(name: string): boolean {
    return this.#globs.some((glob) => matchesGlob(glob, name));
  }
}

function isAny(host: Host, test: (name: string) => boolean): boolean {
  return test(host.name) || (host.address !== null && host.address !== host.name && test(host.address));
}

/** The pattern in lower case, without brackets, port and trailing dot. */
function plainPattern(text: string): string {
  const trimmed = text.trim();
  if (trimmed.length > MAX_PATTERN_LENGTH) {
    throw new NetworkError('invalid', `a host pattern is longer than ${MAX_PATTERN_LENGTH} characters`);
  }
  const [, bracketed] = /^\[(.*)\](?::\d+)?$/.exec(trimmed) ?? [];
  const host = bracketed ?? (isIPv6(trimmed) ? trimmed : trimmed.replace(/:\d+$/, ''));
  if (isIPv6(host)) return parseHost(host)?.address ?? host.toLowerCase();
  if (/[[\]]/.test(trimmed) && bracketed !== '*') {
    throw new NetworkError('invalid', `brackets in a host pattern belong around an IPv6 address: ${text}`);
  }
  const lower = host.toLowerCase().replace(/(?<!\*)\.$/, '');
  const ascii = /^[\x20-\x7e]*$/.test(lower) ? lower : domainToASCII(lower);
  if ((ascii === '' && lower !== '') || !PATTERN.test(ascii)) {
    throw new NetworkError('invalid', `invalid host pattern: ${text}`);
  }
  return ascii;
}

const PATTERN = /^[a-z0-9_.*?-]*$/;
const WILDCARD = /[*?]/;

/** Linear in practice and at worst the product of both lengths, for any pattern: programs choose the text. */
function matchesGlob(glob: string, text: string): boolean {
  let position = 0;
  let retryGlob = -1;
  let retryText = 0;
  for (let index = 0; index < text.length; ) {
    const wanted = glob[position];
    if (wanted === '*') {
      retryGlob = ++position;
      retryText = index;
    } else if (wanted === '?' || wanted === text[index]) {
      position++;
      index++;
    } else if (retryGlob >= 0) {
      position = retryGlob;
      index = ++retryText;
    } else {
      return false;
    }
  }
  while (glob[position] === '*') position++;
  return position === glob.length;
}
