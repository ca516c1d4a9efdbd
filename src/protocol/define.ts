import type * as z from 'zod/mini';
import type { Capability } from './environment.ts';

/** Where a method comes from: the reference's own surface, our additions, or the first dialect. */
export type Origin = 'reference' | 'extension' | 'legacy';

/**
 * How a request shares its connection. `ordinary` ones take one of a bounded number of slots; `control` ones never wait for a
 * slot, so that a busy connection can still be asked about and stopped.
 */
export type Lane = 'ordinary' | 'control';

/** What a token with scopes must grant for a method to be called. */
export type Need = 'none' | 'exec' | 'files.read' | 'files.write' | 'net';

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
  readonly needs: Need;
  /** False where it cannot be guaranteed that the method stays below a directory: a token that names one cannot call it. */
  readonly confinable?: false;
  /** What the lifecycle errors call the group of methods. */
  readonly family: string;
  /** The parameter that names what the request is about; requests about one subject keep their order. */
  readonly subject?: string;
  /** The parameter that may be large base64; its handler takes it as bytes too. */
  readonly bulk?: string;
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

/** Declares a method. Its schemas are built when they are first used. */
export function method<Params extends z.ZodMiniType, Result extends z.ZodMiniType>(
  declaration: Omit<MethodDefinition<Params, Result>, 'params' | 'result' | 'origin' | 'lane'> & {
    params: () => Params;
    result: () => Result;
    origin?: Origin;
    lane?: Lane;
  },
): MethodDefinition<Params, Result> {
  const { params, result, ...rest } = declaration;
  return {
    origin: 'reference',
    lane: 'ordinary',
    ...rest,
    get params() {
      return params();
    },
    get result() {
      return result();
    },
  };
}

/** Declares a notification. Its schema is built when it is first used. */
export function notification<Params extends z.ZodMiniType>(
  declaration: Omit<NotificationDefinition<Params>, 'params' | 'origin' | 'from'> & {
    params: () => Params;
    origin?: Origin;
    from?: 'client' | 'server';
  },
): NotificationDefinition<Params> {
  const { params, ...rest } = declaration;
  return {
    origin: 'reference',
    from: 'server',
    ...rest,
    get params() {
      return params();
    },
  };
}
