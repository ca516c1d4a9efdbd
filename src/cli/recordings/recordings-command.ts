import type { RecordingInfo } from '../../client/recordings.ts';
import { type CommandResult, type Host, printed } from '../commands.ts';
import { withClient } from '../environments/with-client.ts';
import { parseOnlyFlags } from '../flags.ts';
import { ageText } from '../programs/ps.ts';
import { RECORDINGS_FLAGS } from '../specs/recording-specs.ts';
import { table } from '../table.ts';
import { visible } from '../terminal-text.ts';

/** Lists recordings. */
export async function recordingsCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('recordings', argv, RECORDINGS_FLAGS);
  const options = { clientName: 'exec-server recordings', detachedSessionTtlMs: 0, whileDraining: true };
  const everyOwner = flags['all-owners'] === true;
  return withClient(flags, host, options, async ({ client }) => {
    const recordings = await client.recordings.list({ scope: everyOwner ? 'server' : 'owner' });
    return printed(
      flags.json ? `${JSON.stringify(recordings, null, 2)}\n` : recordingTable(recordings, everyOwner, host),
    );
  });
}

function recordingTable(recordings: readonly RecordingInfo[], everyOwner: boolean, host: Host): string {
  const stdout = host.stdout as Partial<NodeJS.WriteStream>;
  const owner = (text: string) => (everyOwner ? [text] : []);
  const now = Date.now();
  const rows = recordings.map((recording) => [
    visible(recording.ref),
    visible(recording.name ?? '-'),
    ...owner(visible(recording.owner)),
    recording.state,
    ageText(now - recording.startedAt.getTime()),
    sizeText(recording.bytes),
    visible(recording.command),
  ]);
  const head = ['REF', 'NAME', ...owner('OWNER'), 'STATE', 'AGE', 'SIZE', 'COMMAND'];
  return table([head, ...rows], stdout.isTTY && stdout.columns ? { width: stdout.columns } : {});
}

function sizeText(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`;
  return bytes < 1_048_576 ? `${Math.ceil(bytes / 1_024)} KiB` : `${Math.ceil(bytes / 1_048_576)} MiB`;
}
