export { isCanonicalBase64 } from '../base/base64.ts';
export * from './define.ts';
export * from './envelope.ts';
export { CAPABILITIES, type Capability } from './environment.ts';
export * from './errors.ts';
export { MalformedMessageError } from './json-scan.ts';
export { DEFAULT_MESSAGE_LIMITS, type MessageLimits } from './limits.ts';
export * from './registry.ts';
export { validateParams } from './validate.ts';
