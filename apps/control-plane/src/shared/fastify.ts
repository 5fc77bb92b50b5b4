// Adds operationId, summary, description and hide to the type of a route's schema.
import type {} from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { Caller } from './caller.ts';
import type { Scope } from './scopes.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that a caller needs. The service does not start if a management route has none. */
    scope?: Scope;
    /**
     * Throws a 404 if the path names a resource that does not exist, that the caller may not see, or that can't be created. It
     * runs before query and body are looked at. The service does not start if a management route with an id has none.
     */
    assertExists?: (request: FastifyRequest) => Promise<unknown>;
    /** The operation changes nothing, whatever its method. */
    reads?: boolean;
    /** Proxies learn of what the operation changes, so it accepts `?wait=propagated`. */
    propagates?: boolean;
  }
  interface FastifyRequest {
    caller: Caller;
  }
}

/** The application with typed schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;
