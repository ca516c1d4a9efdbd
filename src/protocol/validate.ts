import type * as z from 'zod/mini';
import { invalidParams, printable } from './errors.ts';

/** Validates params against a schema and fills in defaults. The error names the field and the cause. */
export function validateParams<Schema extends z.ZodMiniType>(
  schema: Schema,
  params: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(params ?? undefined);
  if (parsed.success) return parsed.data;
  // Only an error needs the invalid input, so the schema is run again with it.
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

/** Reports the union member that got furthest, because that one was probably meant. */
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
