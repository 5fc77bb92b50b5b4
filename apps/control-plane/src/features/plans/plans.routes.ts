import type { IncomingHttpHeaders } from 'node:http';
import type { App } from '../../shared/fastify.ts';
import { Plan, PlanCheck } from './plans.schemas.ts';
import { createPlans, type PlanDeps } from './plans.service.ts';

const MAX_BYTES = 32 * 1024 * 1024;

export function planRoutes(app: App, deps: PlanDeps): void {
  const plans = createPlans(deps);
  app.addHook('onClose', () => plans.close());
  app.post(
    '/plans/check',
    {
      config: { scope: 'operator', reads: true },
      bodyLimit: MAX_BYTES,
      schema: {
        operationId: 'checkPlan',
        summary: 'Check whether changes would succeed',
        description:
          'Makes the calls in order in one transaction, with your credential, and rolls it back: nothing changes, no proxy learns of it. The errors are those that the calls would get now.',
        body: Plan,
        response: { 200: PlanCheck },
      },
    },
    async ({ headers, body }) => await plans.check(credentialIn(headers), body.calls),
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
