import { normalize } from 'node:path/posix';

/** The scopes that a token can be limited to. */
export const SCOPES = ['exec', 'files', 'read-only', 'net', 'observe', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** The private claim that limits a signed token. Its members are those of {@link TokenLimits}. */
export const LIMITS_CLAIM = 'exec_server';

/** The limits of a token. An absent member is no limit. */
export interface TokenLimits {
  readonly scopes?: readonly Scope[];
  /** An absolute native path. */
  readonly path?: string;
  readonly environment?: string;
}

/** Why limits contradict each other or cannot be enforced; null when they are valid. */
export function limitsProblem({ scopes, path, environment }: TokenLimits): string | null {
  if (scopes?.length === 0) return 'a token without any scope allows nothing';
  if (scopes?.includes('read-only') && (scopes.includes('files') || scopes.includes('exec')))
    return 'read-only stands alone or with net, observe or metrics: other scopes write';
  if (environment === '') return 'the environment has no name';
  if (path === undefined) return null;
  // A program is not restricted to the directory.
  if (scopes === undefined || scopes.includes('exec')) {
    return 'a path can be kept for files only: give the scope files or read-only';
  }
  if (!scopes.includes('files') && !scopes.includes('read-only')) {
    return 'a path is about files: give the scope files or read-only';
  }
  return isNormalPath(path)
    ? null
    : 'the path is not absolute, or has dots, double slashes or a slash at its end';
}

/** Reads the private claim; null when it is malformed. An unknown member makes it malformed, because it may be meant as a limit. */
export function readLimits(claim: unknown): TokenLimits | null {
  if (claim === undefined) return {};
  if (claim === null || typeof claim !== 'object' || Array.isArray(claim)) return null;
  const { scopes, path, environment, ...unknown } = claim as Record<string, unknown>;
  if (Object.keys(unknown).length > 0) return null;
  if (scopes !== undefined && !isScopes(scopes)) return null;
  if (!isOptionalText(path) || !isOptionalText(environment)) return null;
  const limits: TokenLimits = {
    ...(scopes !== undefined && { scopes }),
    ...(path !== undefined && { path }),
    ...(environment !== undefined && { environment }),
  };
  return limitsProblem(limits) === null ? limits : null;
}

function isScopes(value: unknown): value is Scope[] {
  return Array.isArray(value) && value.every((scope) => (SCOPES as readonly unknown[]).includes(scope));
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function isNormalPath(path: string): boolean {
  if (!path.startsWith('/') || path.includes('\0')) return false;
  return path === '/' || (normalize(path) === path && !path.endsWith('/'));
}
