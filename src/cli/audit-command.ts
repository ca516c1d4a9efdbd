import { verifyAuditLogs } from '../audit/verify.ts';
import { quoteValue } from '../server/config/values.ts';
import { RunError, UsageError } from './failures.ts';
import { cannotReadFile } from './file-failures.ts';
import { parseFlags } from './flags.ts';
import { AUDIT } from './specs/small-specs.ts';

/** Verifies an audit log; returns the text to print. Throws RunError when the log is damaged or cannot be read. */
export async function auditCommand(argv: readonly string[]): Promise<string> {
  const { flags, positionals } = parseFlags('audit', argv, AUDIT.flags);
  const [verb, ...files] = positionals;
  if (verb !== 'verify') {
    const given = verb === undefined ? '' : `, not ${quoteValue(verb)}`;
    throw new UsageError(`expected 'verify FILE'${given}`, 'audit');
  }
  if (files.length === 0)
    throw new UsageError("verify needs a file: 'exec-server audit verify FILE'", 'audit');
  const { lines, head } = await verify(files);
  return flags.json
    ? `${JSON.stringify({ lines, head })}\n`
    : `valid: ${lines} lines, hash of the last: ${head}\n`;
}

async function verify(files: readonly string[]): Promise<{ readonly lines: number; readonly head: string }> {
  const result = await verifyAuditLogs(files).catch((error: NodeJS.ErrnoException) => {
    throw error.code === undefined
      ? error
      : cannotReadFile(`the audit log ${error.path ?? ''}`.trim(), error);
  });
  if (!result.ok) throw new RunError(`${result.file}: line ${result.line}: ${result.problem}`);
  return result;
}
