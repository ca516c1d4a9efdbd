export * from './protocol/index.ts';
export * from './server/index.ts';
