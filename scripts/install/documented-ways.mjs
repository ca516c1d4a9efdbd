// The ways to install exec-server, as the documentation describes them: blocks of the language console with the flag `install=WAY`.
import { docBlocks, outputPattern, parseConsole } from '../doc-blocks.mjs';

const PAGES = ['README.md', 'docs/guides/containers.md', 'docs/guides/service.md'];
/** In blocks with the flag `eventually`, a program that was started before may not be ready yet. */
const MAX_TRIES = 200;
const END = '\0';

/** The commands of each way, in the order of the pages. */
export function documentedWays() {
  const ways = new Map();
  for (const page of PAGES) {
    for (const { flags, text, line } of docBlocks(page)) {
      const way = flags.find((flag) => flag.startsWith('install='))?.slice('install='.length);
      if (way === undefined) continue;
      const tries = flags.includes('eventually') ? MAX_TRIES : 1;
      const commands = parseConsole(text).map((command) => ({
        ...command,
        tries,
        source: `${page}:${line}`,
      }));
      ways.set(way, [...(ways.get(way) ?? []), ...commands]);
    }
  }
  return ways;
}

/** A script that runs the commands in one shell, word for word, and ends at the first that fails. See {@link checkOutput}. */
export function scriptOf(commands) {
  const lines = commands.map(
    ({ command, tries }) => `\
started=$(date +%s%N)
for try in $(seq ${tries}); do
[ "$try" = 1 ] || sleep 0.1
{
${command}
} >"$out" 2>&1 </dev/null
code=$?
[ "$code" = 0 ] && break
done
printf '%s\\0' "$code" "$(($(date +%s%N) - started))" && tr -d '\\0' <"$out" && printf '\\0'
[ "$code" = 0 ] || exit 0
`,
  );
  return `out=$(mktemp)\n${lines.join('')}rm "$out"\n`;
}

/** Compares what the script has printed with the pages. Returns the seconds of each command. Throws for the first difference. */
export function checkOutput(commands, printed) {
  const fields = printed.split(END);
  return commands.map(({ command, expected, source }, index) => {
    const [code, nanoseconds, output] = fields.slice(index * 3);
    const failure = (reason) => new Error(`${source}: ${command}\n${reason}:\n${output}`);
    if (code !== '0') throw failure(`exited with ${code}`);
    // Where a page shows no output, there is nothing to compare.
    if (expected !== '' && !outputPattern(expected, 'whole').test(output)) {
      throw failure(`the page shows:\n${expected}\nbut it printed`);
    }
    return { command, seconds: Number(nanoseconds) / 1e9 };
  });
}
