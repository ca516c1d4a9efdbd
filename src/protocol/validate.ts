import type * as z from 'zod/mini';
import { invalidParams, printable } from './errors.ts';

/** Checks params against a schema, fills in defaults, and refuses with the field and the cause. */
export function validateParams<Schema extends z.ZodMiniType>(
  schema: Schema,
  params: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(params ?? undefined);
  if (parsed.success) return parsed.data;
  // Only a refusal needs to know what was there in place of what was expected.
  const detailed = schema.safeParse(params ?? undefined, { reportInput: true });
  throw invalidParams(describeIssues((detailed.error ?? parsed.error).issues, ['params']));
}

type Issue = z.core.$ZodIssue;

function describeIssues(issues: readonly Issue[], at: readonly PropertyKey[]): string {
  const issue = issues[0];
  if (issue === undefined) return 'invalid params';
  const path = [...at, ...issue.path];
  if (issue.code === 'invalid_union' && issue.errors.length > 0) return describeUnion(issue, path);
  return `${path.map((part) => printable(String(part), 60)).join('.')}: ${describe(issue)}`;
}

/** Of several forms the one that got furthest is the one that was meant. */
function describeUnion(issue: z.core.$ZodIssueInvalidUnion, path: readonly PropertyKey[]): string {
  const depth = (branch: readonly Issue[]) => Math.max(0, ...branch.map((each) => each.path.length));
  const best = issue.errors.reduce<readonly Issue[]>(
    (chosen, branch) => (depth(branch) > depth(chosen) ? branch : chosen),
    issue.errors[0] ?? [],
  );
  return describeIssues(best, path);
}

function describe(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? `missing, expected ${issue.expected}` : `expected ${issue.expected}`;
    case 'invalid_value':
      return `expected ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'invalid_union':
      return `none of the accepted forms${issue.discriminator === undefined ? '' : ` (see \`${issue.discriminator}\`)`}`;
    default:
      return issue.message;
  }
}
