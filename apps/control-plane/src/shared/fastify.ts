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
import type { AssertMatch } from './preconditions.ts';
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
    /** A plan may contain the operation although proxies learn nothing of it: all that it does is undone by a rollback. */
    plannable?: boolean;
    /** The fields that make up the ETag of the resource that the operation answers with. A change of it may depend on its ETag. */
    versioned?: readonly string[];
    /** The fields of the ETag that a change may depend on, if it answers with something else. */
    dependsOn?: readonly string[];
    /** A POST that `If-None-Match: *` keeps from creating a second resource with the same name. */
    createsOnce?: boolean;
  }
  interface FastifyRequest {
    caller: Caller;
    /** Called with the current state before a change of a `versioned` resource. */
    assertMatch: AssertMatch;
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
