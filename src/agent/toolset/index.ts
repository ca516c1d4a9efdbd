export { createAgentTools } from './create-agent-tools.ts';
export type * from './types.ts';
