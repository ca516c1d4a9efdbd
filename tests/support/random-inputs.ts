/**
 * How many random inputs a test tries. Those that also run on other versions of Node try a quarter of them there: the runs on all versions
 * together then try twice as many as on one.
 */
export function randomInputs(count: number): number {
  return process.env.RANDOM_INPUTS === 'few' ? Math.ceil(count / 4) : count;
}
