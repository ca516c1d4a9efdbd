/** @param {number} limit @returns {import('./index.mjs').Goal} */
export const ratioAtMost = (limit) => ({ of: 'ratio', comparison: '<=', limit });

/** @param {number} limit @returns {import('./index.mjs').Goal} */
export const ratioAtLeast = (limit) => ({ of: 'ratio', comparison: '>=', limit });

/** @param {number} limit @returns {import('./index.mjs').Goal} */
export const valueAtMost = (limit) => ({ of: 'value', comparison: '<=', limit });

/** @param {number} limit @returns {import('./index.mjs').Goal} */
export const valueAtLeast = (limit) => ({ of: 'value', comparison: '>=', limit });
