import { agent } from './agent.mjs';
import { commands } from './commands.mjs';
import { webConsole } from './console.mjs';
import { echo } from './echo.mjs';
import { fileBlocks } from './file-blocks.mjs';
import { fileContents } from './file-contents.mjs';
import { folders } from './folders.mjs';
import { fresh } from './fresh.mjs';
import { growth } from './growth.mjs';
import { integrity } from './integrity.mjs';
import { mcp } from './mcp.mjs';
import { memory } from './memory.mjs';
import { relay } from './relay.mjs';
import { requests } from './requests.mjs';
import { sandbox } from './sandbox.mjs';
import { screen } from './screen.mjs';
import { shellState } from './shell-state.mjs';
import { stall } from './stall.mjs';
import { starts } from './starts.mjs';
import { startup } from './startup.mjs';
import { streams } from './streams.mjs';
import { tcp } from './tcp.mjs';
import { terminate } from './terminate.mjs';
import { viewers } from './viewers.mjs';

/**
 * @typedef {object} Context The parameters of a workload.
 * @property {string} url Where the server listens; empty for a workload that starts its own.
 * @property {number} pid The server's process.
 * @property {boolean} quick Small sizes: a functional check instead of a measurement.
 * @property {string} work A folder for files; all measurements of a run share it.
 * @property {import('../harness/servers.mjs').ServerSpec} server
 *
 * @typedef {object} Goal
 * @property {'ratio' | 'value'} of The ratio b / a, or the value of b alone.
 * @property {'<=' | '>='} comparison
 * @property {number} limit
 *
 * @typedef {object} Row One line of the table.
 * @property {string} key The metric that `run` returns.
 * @property {string} label
 * @property {'ms' | 'µs' | '/s' | 'MB/s' | 's/GB' | 'MB' | 'KB' | 'x' | '%' | 'yes/no' | 'count'} unit
 * @property {'lower' | 'higher' | null} better Null where the value does not rate the server.
 * @property {Goal} [goal]
 *
 * @typedef {object} Workload
 * @property {string} name The name that `--only` matches.
 * @property {string} title
 * @property {Row[]} rows
 * @property {'launcher' | 'nothing'} [against] Compare with the reference as npm installs it instead of its native binary, or not at all.
 * @property {boolean} [standalone] It starts its own servers.
 * @property {() => string | null} [unavailable] Why it cannot run on this machine; null when it can. Its rows are left out then.
 * @property {number} [timeoutSeconds] For one measurement; 60 by default.
 * @property {(context: Context) => Promise<Record<string, number>>} run Throws when the server returns anything wrong.
 */

/** @type {readonly Workload[]} */
export const WORKLOADS = [
  ...integrity,
  ...startup,
  ...memory,
  ...fresh,
  ...requests,
  ...starts,
  ...shellState,
  ...streams,
  ...echo,
  ...screen,
  ...stall,
  ...viewers,
  ...terminate,
  ...fileContents,
  ...fileBlocks,
  ...folders,
  ...sandbox,
  ...agent,
  ...mcp,
  ...tcp,
  ...relay,
  ...commands,
  ...webConsole,
  ...growth,
];
