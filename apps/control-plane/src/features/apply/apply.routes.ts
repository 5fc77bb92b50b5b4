import type { IncomingHttpHeaders } from 'node:http';
import type { App } from '../../shared/fastify.ts';
import { IdempotencyHeaders } from '../idempotency/idempotencyKeys.ts';
import { Applied, Plan } from './apply.schemas.ts';
import { type ApplyDeps, createApply } from './apply.service.ts';

const MAX_BYTES = 32 * 1024 * 1024;

export function applyRoutes(app: App, deps: ApplyDeps): void {
  const applying = createApply(deps);
  app.addHook('onClose', () => applying.close());
  app.post(
    '/apply',
    {
      config: { scope: 'operator', propagates: true },
      bodyLimit: MAX_BYTES,
      schema: {
        operationId: 'applyPlan',
        summary: 'Make many changes, all or none',
        description:
          'Makes the calls in order in one transaction, with your credential. If one is refused, nothing changes, and the error is 412 `precondition_failed` if a resource is not as `expects` says, else 422 `plan_refused`; its `errors` say which calls, each as in a dry run. One plan is applied at a time: 503 `apply_running` and `apply_interrupted` changed nothing.',
        headers: IdempotencyHeaders,
        body: Plan,
        response: { 200: Applied },
      },
    },
    async ({ caller, headers, body }, reply) => {
      const idempotencyKey = headers['idempotency-key'];
      const sender = { caller, credential: credentialIn(headers) };
      const { result, replayed } = await applying.apply(sender, body, idempotencyKey);
      if (replayed) reply.header('idempotency-replayed', 'true');
      return result;
    },
  );
}

/** What says who sends a request: a key or a token, or a session with its CSRF token. */
const CREDENTIAL = ['authorization', 'cookie', 'x-csrf-token'] as const;

function credentialIn(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    CREDENTIAL.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  );
}
