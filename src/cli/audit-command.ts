import { verifyAuditLogs } from '../audit/verify.ts';
import { quoteValue } from '../server/config/values.ts';
import { RunError, UsageError } from './failures.ts';

/** Does what the arguments behind `audit` ask for; returns what to print. Throws RunError when a log is not in order. */
export async function auditCommand(argv: readonly string[]): Promise<string> {
  if (argv.includes('--help') || argv.includes('-h')) return AUDIT_HELP;
  const [verb, ...files] = argv;
  if (verb !== 'verify') {
    const given = verb === undefined ? 'nothing' : quoteValue(verb);
    throw new UsageError(`audit needs 'verify FILE', not ${given}`);
  }
  const flag = files.find((file) => file.startsWith('-'));
  if (flag !== undefined)
    throw new UsageError(`unknown flag ${quoteValue(flag)}; files come behind 'verify'`);
  if (files.length === 0) throw new UsageError("audit verify needs a file: 'exec-server audit verify FILE'");
  return verify(files);
}

export const AUDIT_HELP = `\
Usage: exec-server audit verify FILE...

Checks that an audit log (--audit-log) is one unbroken chain: each line carries
the SHA-256 of the line before. Several files are one log that was rotated, the
oldest first. Prints the number of lines and the hash of the last one, or names
the first line that is wrong and exits with 1. Whoever can write the file can
write all of it anew: keep the hash elsewhere, and later look for it in the log.
`;

async function verify(files: readonly string[]): Promise<string> {
  const result = await verifyAuditLogs(files).catch((error: NodeJS.ErrnoException) => {
    throw error.code === undefined ? error : new RunError(`cannot read the audit log: ${error.message}`);
  });
  if (!result.ok) throw new RunError(`${result.file}: line ${result.line}: ${result.problem}`);
  return `in order: ${result.lines} lines, the last has the hash ${result.head}\n`;
}
