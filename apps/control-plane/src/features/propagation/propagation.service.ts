import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '@weighbridge/database';
import type { FastifyReply } from 'fastify';
import { type Static, Type } from 'typebox';
import { OneOf, Strict } from '../../shared/schemas.ts';
import { currentRevision } from '../changes/changes.service.ts';
import { findProxiesBehind } from './propagation.repository.ts';

const DEFAULT_TIMEOUT_MS = 5_000;
const MAX_TIMEOUT_MS = 60_000;
const POLL_MS = 20;

/** The query of an operation that can wait until its change has reached all proxies. */
export const WaitQuery = Strict({
  wait: Type.Optional(
    OneOf(['propagated'], {
      description: 'Respond once no proxy serves the state before the change, or after timeout_ms.',
    }),
  ),
  timeout_ms: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,5}$', description: 'From 0 to 60000; 5000 by default.' }),
  ),
});

/**
 * If the query asks for it, waits until no proxy serves the state before a committed change. Response headers name the
 * proxies that still may.
 */
export async function awaitPropagation(
  db: Database,
  query: Static<typeof WaitQuery>,
  reply: FastifyReply,
): Promise<void> {
  if (query.wait === undefined) return;
  const timeoutMs = Math.min(Number(query.timeout_ms ?? DEFAULT_TIMEOUT_MS), MAX_TIMEOUT_MS);
  const pending = await pendingProxies(db, timeoutMs);
  reply.header('x-svc-propagated', String(pending.length === 0));
  if (pending.length > 0) reply.header('x-svc-pending-proxies', pending.slice(0, 50).join(','));
}

/** Waits for at most `timeoutMs` and returns the proxies that may still serve the state before the current revision. */
async function pendingProxies(db: Database, timeoutMs: number): Promise<string[]> {
  const revision = await currentRevision(db);
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const pending = await findProxiesBehind(db, revision);
    if (pending.length === 0 || Date.now() >= deadline) return pending;
    await sleep(POLL_MS);
  }
}
