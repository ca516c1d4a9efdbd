/** The version of the package. A test compares it with package.json, which a bundle of the server does not have. */
export const VERSION = '0.1.0';
