// Builds the image of deploy/Containerfile and uses it as docs/guides/containers.md describes. Needs root and these packages:
//
//   apt-get install --no-install-recommends podman buildah catatonit runc debootstrap redis-server
//   npm run test:image
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { buildImage } from './image/build-image.mjs';
import { checkRelay } from './image/check-relay.mjs';
import { checkServer } from './image/check-server.mjs';
import { Podman } from './image/podman.mjs';

const PROGRAMS = ['podman', 'buildah', 'catatonit', 'runc', 'debootstrap', 'redis-server'];

const missing = PROGRAMS.filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0);
if (missing.length > 0 || process.getuid() !== 0) {
  const reason = missing.length > 0 ? `not installed: ${missing.join(', ')}` : 'it needs root';
  process.stderr.write(
    `test-image: ${reason}\napt-get install --no-install-recommends ${PROGRAMS.join(' ')}\n`,
  );
  process.exit(2);
}

/** Runs one step and prints how long it took. */
async function report(name, step) {
  const startedAt = performance.now();
  try {
    const result = await step();
    const detail = typeof result === 'string' && result.length < 60 ? `  ${result}` : '';
    console.log(`✓ ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)${detail}`);
    return result;
  } catch (error) {
    console.log(`✗ ${name}`);
    throw error;
  }
}

const podman = new Podman();
try {
  const image = await buildImage(podman, report);
  await report('image: size', async () => {
    const bytes = Number(await podman.do('image', 'inspect', image, '--format', '{{.Size}}'));
    assert(bytes > 0);
    return `${Math.round(bytes / 1e6)} MB`;
  });
  await checkServer(podman, image, report);
  await checkRelay(podman, image, report);
} finally {
  await podman.close();
}
