import type * as z from 'zod/mini';
import type { Capability } from './environment.ts';

/** Where a method comes from: the reference, our extensions, or the legacy dialect. */
export type Origin = 'reference' | 'extension' | 'legacy';

/**
 * How a request shares its connection. `ordinary` requests use one of a bounded number of slots. `control` requests
 * never wait for a slot, so that a busy connection can still be inspected and stopped.
 */
export type Lane = 'ordinary' | 'control';

/** The scope that a token must grant to call the method. `processes.read` is granted by `exec` and by `observe`. */
export type Need = 'none' | 'exec' | 'processes.read' | 'files.read' | 'files.write' | 'net';

/** Params that no server can honour, and the reason. Null and an empty list ask for nothing and are ignored. */
export interface RefusedParams {
  readonly names: readonly string[];
  readonly reason: string;
}

/** The definition of a request method, for the server, the client, the schemas and the documentation. */
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
  /**
   * False when the server cannot guarantee that the method stays below a directory. A token that names a directory
   * cannot call it.
   */
  readonly pathRestrictable?: false;
  /** Name of the method group in lifecycle errors. */
  readonly family: string;
  /** The parameter that names the subject of the request. Requests about one subject keep their order. */
  readonly subject?: string;
  /** Unknown params are ignored. These are refused, because a program that does not get them would not work as expected. */
  readonly refused?: RefusedParams;
  /** The flag in `capabilities` that announces the method. */
  readonly capability?: Capability;
}

/** The definition of a notification: its params and when it is sent. */
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
