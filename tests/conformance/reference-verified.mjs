// Records which areas the reference has passed. A reference version never changes, so unchanged areas need no second run.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { REFERENCE_VERSION } from '../../scripts/reference.mjs';

const RECORD = fileURLToPath(new URL('reference-verified.json', import.meta.url));

/** The cases of areas that have changed since the reference passed them, or that it has not passed yet. */
export function unverifiedCases(cases) {
  const { reference, areas } = JSON.parse(readFileSync(RECORD, 'utf8'));
  const digests = areaDigests(cases);
  return cases.filter(({ area }) => reference !== REFERENCE_VERSION || areas[area] !== digests[area]);
}

/** Records the areas whose cases the reference passed completely. `results` are those of all cases that were run. */
export function recordVerified(cases, results) {
  const passed = new Set(
    results
      .filter(({ status, reason = '' }) => status === 'passed' || reason.startsWith('only for'))
      .map(({ name }) => name),
  );
  const open = new Set(cases.filter(({ name, slow }) => !slow && !passed.has(name)).map(({ area }) => area));
  const digests = Object.entries(areaDigests(cases)).filter(([area]) => !open.has(area));
  const record = { reference: REFERENCE_VERSION, areas: Object.fromEntries(digests) };
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
}

/** Slow cases are neither part of the suite nor of the record. */
function areaDigests(cases) {
  const hashes = {};
  for (const testCase of cases) {
    if (testCase.slow) continue;
    hashes[testCase.area] ??= createHash('sha256');
    hashes[testCase.area].update(JSON.stringify(testCase));
  }
  return Object.fromEntries(Object.entries(hashes).map(([area, hash]) => [area, hash.digest('hex')]));
}
