// Generates src/relay/frames/generated/relay_pb.ts from proto/relay.proto. Needs protoc. The result is committed, so that a build
// does not need it.
//
//   node scripts/generate-relay.mjs            writes the file
//   node scripts/generate-relay.mjs --check    exits 1 when the file is out of date
//
// Without protoc both do nothing but print a note.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tools = join(root, 'node_modules/.bin');
const target = join(root, 'src/relay/frames/generated/relay_pb.ts');
const check = process.argv.includes('--check');

if (spawnSync('protoc', ['--version']).error === undefined) write(generate());
else
  process.stderr.write(
    'generate-relay: protoc is not installed; skipped relay_pb.ts (to change proto/relay.proto: apt-get install protobuf-compiler)\n',
  );

function write(generated) {
  if (!check) {
    writeFileSync(target, generated);
  } else if (generated !== readFileSync(target, 'utf8')) {
    process.stderr.write('relay_pb.ts is out of date; run `node scripts/generate-relay.mjs`\n');
    process.exitCode = 1;
  }
}

function generate() {
  const folder = mkdtempSync(join(tmpdir(), 'relay-proto-'));
  try {
    run('protoc', [
      `--plugin=${join(tools, 'protoc-gen-es')}`,
      `--proto_path=${join(root, 'proto')}`,
      `--es_out=${folder}`,
      '--es_opt=target=ts',
      'relay.proto',
    ]);
    // Formatted as a file of the project, because the temporary folder has no Biome settings.
    const generated = readFileSync(join(folder, 'relay_pb.ts'), 'utf8');
    return run(join(tools, 'biome'), ['check', '--write', `--stdin-file-path=${target}`], generated);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function run(command, args, input) {
  const result = spawnSync(command, args, { cwd: root, input, encoding: 'utf8' });
  if (result.error !== undefined || result.status !== 0) {
    throw new Error(`${command} failed: ${result.error?.message ?? result.stderr}`);
  }
  return result.stdout;
}
