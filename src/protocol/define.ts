import type * as z from 'zod/mini';
import type { Capability } from './environment.ts';

/** Where a method comes from: the reference's own surface, our additions, or the first dialect. */
export type Origin = 'reference' | 'extension' | 'legacy';

/**
 * How a request shares its connection. `ordinary` ones take one of a bounded number of slots; `control` ones never wait for a
 * slot, so that a busy connection can still be asked about and stopped.
 */
export type Lane = 'ordinary' | 'control';

/** One request method: everything that the server, the client, the schemas and the documentation need to know about it. */
export interface MethodDefinition<
  Params extends z.ZodMiniType = z.ZodMiniType,
  Result extends z.ZodMiniType = z.ZodMiniType,
> {
  readonly params: Params;
  readonly result: Result;
  readonly summary: string;
  readonly origin: Origin;
  readonly lane: Lane;
  /** What the lifecycle errors call the group of methods. */
  readonly family: string;
  /** The parameter that names what the request is about; requests about one subject keep their order. */
  readonly subject?: string;
  /** The flag in `capabilities` that announces the method. */
  readonly capability?: Capability;
}

/** One notification: its params and when it is sent. */
export interface NotificationDefinition<Params extends z.ZodMiniType = z.ZodMiniType> {
  readonly params: Params;
  readonly summary: string;
  readonly origin: Origin;
  readonly from: 'client' | 'server';
}

/** Declares a method; it exists to infer the schema types. */
export function method<Params extends z.ZodMiniType, Result extends z.ZodMiniType>(
  definition: Omit<MethodDefinition<Params, Result>, 'origin' | 'lane'> & { origin?: Origin; lane?: Lane },
): MethodDefinition<Params, Result> {
  return { origin: 'reference', lane: 'ordinary', ...definition };
}

/** Declares a notification; it exists to infer the schema type. */
export function notification<Params extends z.ZodMiniType>(
  definition: Omit<NotificationDefinition<Params>, 'origin' | 'from'> & {
    origin?: Origin;
    from?: 'client' | 'server';
  },
): NotificationDefinition<Params> {
  return { origin: 'reference', from: 'server', ...definition };
}
