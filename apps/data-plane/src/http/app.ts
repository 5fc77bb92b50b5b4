import { createHttpApp, type Logger, refuseOtherMethods, requireJsonType } from '@weighbridge/runtime';
import type { FastifyInstance } from 'fastify';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { authenticate } from '../pipeline/authenticate.ts';
import { type ServeDeps, serve } from '../pipeline/serve.ts';

declare module 'fastify' {
  interface FastifyRequest {
    key: ResolvedKey;
    /** Monotonic, in milliseconds. */
    receivedAt: number;
  }
}

export interface AppDeps extends ServeDeps {
  readonly keys: KeyCache;
  readonly logger: Logger;
  readonly bodyLimitBytes: number;
  readonly notReady: () => string | undefined;
}

/** The inference surface. This list is its map. */
export function buildApp(deps: AppDeps): FastifyInstance {
  const app = createHttpApp(deps);
  // Bodies stay the bytes that they are: what the service reads in them, it finds by scanning.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer' },
    async (request: Parameters<typeof requireJsonType>[0], body: Buffer) => {
      requireJsonType(request);
      return body;
    },
  );
  app.register(
    async (api) => {
      const others = refuseOtherMethods(api);
      api.decorateRequest('key', null as unknown as ResolvedKey);
      api.decorateRequest('receivedAt', 0);
      // Before the body is read: nobody uploads 32 MiB to learn that the key is wrong.
      api.addHook('onRequest', async (request) => {
        request.receivedAt = performance.now();
        request.key = await authenticate(deps.keys, request.headers.authorization, deps.now().getTime());
      });

      api.post('/chat/completions', async (request, reply) => {
        const question = request.url.indexOf('?');
        const inference = {
          id: request.id,
          key: request.key,
          headers: request.headers,
          body: (request.body as Buffer | undefined) ?? Buffer.alloc(0),
          query: question < 0 ? '' : request.url.slice(question),
          receivedAt: request.receivedAt,
        };
        await serve(deps, inference, () => {
          reply.hijack();
          return reply.raw;
        });
      });
      others.register();
    },
    { prefix: '/v1' },
  );
  return app;
}
