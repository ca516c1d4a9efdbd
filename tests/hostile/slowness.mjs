// How slow this machine is at the moment. Blocks are CPU time, which also grows on a slow or shared CPU.

/** CPU time of the sample on the machine that the limits were set on, while it was idle. */
const SAMPLE_MS = 18;

const TEXT = JSON.stringify(
  Array.from({ length: 20_000 }, (_, index) => ({ id: index, name: `name-${index}` })),
);

/** How many times longer the machine takes than the one that the limits were set on; at least 1. */
export function slowness() {
  // The engine compiles the code in the first samples.
  const samples = Array.from({ length: 5 }, sampleMs);
  return Math.max(1, Math.min(...samples) / SAMPLE_MS);
}

/** CPU time of a fixed piece of work of the kind that requests cause: parsing JSON and reading its texts. */
function sampleMs() {
  const before = process.cpuUsage();
  let sum = 0;
  for (let round = 0; round < 4; round++) {
    for (const { name } of JSON.parse(TEXT)) {
      for (let index = 0; index < name.length; index++) sum = (sum * 31 + name.charCodeAt(index)) | 0;
    }
  }
  const { user, system } = process.cpuUsage(before);
  if (Number.isNaN(sum)) throw new Error('the sample is wrong');
  return (user + system) / 1000;
}
