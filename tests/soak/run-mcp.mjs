// npm run soak:mcp -- [--seconds N]
import { parseArgs } from 'node:util';
import { runMcpSoak } from './mcp.mjs';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '600' } } });
const began = performance.now();
const report = (line) =>
  process.stdout.write(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${line}\n`);
try {
  const { clients, calls, failedCalls, lines, bytes, exitCode } = await runMcpSoak({
    seconds: Number(values.seconds),
    report,
  });
  report(
    `${lines} lines (${bytes} bytes) once each and in order, exit code ${exitCode}; ${clients} clients, ${calls} calls, ${failedCalls} failed and repeated`,
  );
} catch (error) {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
}
