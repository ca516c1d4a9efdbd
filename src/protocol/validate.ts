import type * as z from 'zod/mini';
import { invalidParams, printable } from './errors.ts';

/** Validates params against a schema and fills in defaults. The error names the field and the cause. */
export function validateParams<Schema extends z.ZodMiniType>(
  schema: Schema,
  params: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(params ?? undefined);
  if (parsed.success) return parsed.data;
  throw invalidParams(describeIssues(parsed.error.issues, params ?? undefined, []));
}

type Issue = z.core.$ZodIssue;

function describeIssues(issues: readonly Issue[], params: unknown, at: readonly PropertyKey[]): string {
  const issue = issues[0];
  if (issue === undefined) return 'invalid params';
  const path = [...at, ...issue.path];
  if (issue.code === 'invalid_union' && issue.errors.length > 0) return describeUnion(issue, params, path);
  const isMissing = memberAt(params, path) === undefined;
  return `${['params', ...path].map((part) => printable(String(part), 60)).join('.')}: ${describe(issue, isMissing)}`;
}

/** Reports the union member that got furthest, because that one was probably meant. */
function describeUnion(
  issue: z.core.$ZodIssueInvalidUnion,
  params: unknown,
  path: readonly PropertyKey[],
): string {
  const depth = (branch: readonly Issue[]) =>
    branch.reduce((deepest, { path }) => Math.max(deepest, path.length), 0);
  const best = issue.errors.reduce<readonly Issue[]>(
    (chosen, branch) => (depth(branch) > depth(chosen) ? branch : chosen),
    issue.errors[0] ?? [],
  );
  return describeIssues(best, params, path);
}

function describe(issue: Issue, isMissing: boolean): string {
  switch (issue.code) {
    case 'invalid_type':
      return isMissing ? `missing, expected ${issue.expected}` : `expected ${issue.expected}`;
    case 'invalid_value':
      return `expected ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'invalid_union':
      return `none of the accepted forms${issue.discriminator === undefined ? '' : ` (see \`${issue.discriminator}\`)`}`;
    case 'too_big':
      return `expected at most ${issue.maximum} ${UNITS.get(issue.origin) ?? ''}`;
    default:
      return issue.message;
  }
}

const UNITS: ReadonlyMap<string, string> = new Map([
  ['string', 'characters'],
  ['array', 'elements'],
  ['record', 'members'],
]);

function memberAt(params: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key], params);
}
