import type { Database } from '@weighbridge/database';
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { propagation } from '../features/proxies/proxies.service.ts';
import { OneOf } from './schemas.ts';

/** What a change can be asked to wait for, to be spread into the schema of its query. */
export const WaitQuery = {
  wait: Type.Optional(
    OneOf(['propagated'], {
      description:
        'Answer when no proxy serves anymore what was before the change, or when timeout_ms is over.',
    }),
  ),
  timeout_ms: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,5}$', description: 'From 0 to 60000; 5000 where it is left out.' }),
  ),
};

const DEFAULT_TIMEOUT_MS = 5_000;
const MAX_TIMEOUT_MS = 60_000;

/**
 * Where the query asks for it, waits until a committed change has reached every proxy, and says in headers whether it
 * has and which proxies are behind.
 */
export async function awaitPropagation(
  db: Database,
  query: { readonly wait?: 'propagated'; readonly timeout_ms?: string },
  reply: FastifyReply,
): Promise<void> {
  if (query.wait === undefined) return;
  const timeoutMs = Math.min(Number(query.timeout_ms ?? DEFAULT_TIMEOUT_MS), MAX_TIMEOUT_MS);
  const { complete, pending_proxies } = await propagation(db, timeoutMs);
  reply.header('x-svc-propagated', String(complete));
  if (!complete) reply.header('x-svc-pending-proxies', pending_proxies.slice(0, 50).join(','));
}
