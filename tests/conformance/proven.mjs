// Which areas were played against the reference as they are now. The reference never changes, so playing them again tells nothing.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { REFERENCE_VERSION } from '../../scripts/reference.mjs';

const PROVEN = fileURLToPath(new URL('proven.json', import.meta.url));

/** The cases of those areas that the reference has not passed as they are. */
export function unprovenCases(cases) {
  const { reference, areas } = JSON.parse(readFileSync(PROVEN, 'utf8'));
  const digests = areaDigests(cases);
  return cases.filter(({ area }) => reference !== REFERENCE_VERSION || areas[area] !== digests[area]);
}

/** Notes the areas of which the reference passed every case. `results` are those of all cases that were played. */
export function recordProof(cases, results) {
  const passed = new Set(
    results
      .filter(({ status, reason = '' }) => status === 'passed' || reason.startsWith('only for'))
      .map(({ name }) => name),
  );
  const open = new Set(cases.filter(({ name, slow }) => !slow && !passed.has(name)).map(({ area }) => area));
  const digests = Object.entries(areaDigests(cases)).filter(([area]) => !open.has(area));
  const proof = { reference: REFERENCE_VERSION, areas: Object.fromEntries(digests) };
  writeFileSync(PROVEN, `${JSON.stringify(proof, null, 2)}\n`);
}

/** Slow cases are not part of the suite, and not of the proof. */
function areaDigests(cases) {
  const hashes = {};
  for (const testCase of cases) {
    if (testCase.slow) continue;
    hashes[testCase.area] ??= createHash('sha256');
    hashes[testCase.area].update(JSON.stringify(testCase));
  }
  return Object.fromEntries(Object.entries(hashes).map(([area, hash]) => [area, hash.digest('hex')]));
}
