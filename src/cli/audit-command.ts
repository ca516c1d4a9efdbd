import { verifyAuditLogs } from '../audit/verify.ts';
import { quoteValue } from '../server/config/values.ts';
import { RunError, UsageError } from './failures.ts';
import { HELP_FLAG, parseFlags } from './flags.ts';

/** Verifies an audit log; returns the text to print. Throws RunError when the log is damaged or cannot be read. */
export async function auditCommand(argv: readonly string[]): Promise<string> {
  const { flags, positionals } = parseFlags('audit', argv, { help: HELP_FLAG });
  if (flags.help) return AUDIT_HELP;
  const [verb, ...files] = positionals;
  if (verb !== 'verify') {
    const given = verb === undefined ? '' : `, not ${quoteValue(verb)}`;
    throw new UsageError(`expected 'verify FILE'${given}`, 'audit');
  }
  if (files.length === 0)
    throw new UsageError("verify needs a file: 'exec-server audit verify FILE'", 'audit');
  return verify(files);
}

export const AUDIT_HELP = `\
Usage: exec-server audit verify FILE...

Verifies that an audit log (--audit-log) is one unbroken chain: each line has
the SHA-256 of the line before it. Several files are one log that was rotated;
name the oldest first. Prints the number of lines and the hash of the last one,
or names the first wrong line and exits with 1. Anyone who can write the file
can rewrite all of it: store the hash elsewhere, and check later that the log
still contains it.
`;

async function verify(files: readonly string[]): Promise<string> {
  const result = await verifyAuditLogs(files).catch((error: NodeJS.ErrnoException) => {
    throw error.code === undefined ? error : new RunError(`cannot read the audit log: ${error.message}`);
  });
  if (!result.ok) throw new RunError(`${result.file}: line ${result.line}: ${result.problem}`);
  return `valid: ${result.lines} lines, hash of the last: ${result.head}\n`;
}
