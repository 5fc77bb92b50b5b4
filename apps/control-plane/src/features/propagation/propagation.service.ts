import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '@weighbridge/database';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TObject, Type } from 'typebox';
import { OneOf, QueryInteger, Strict } from '../../shared/schemas.ts';
import { wholeNumber } from '../../shared/wholeNumber.ts';
import { currentRevision } from '../changes/changes.service.ts';
import { type ServingProxy, servingProxies } from '../proxies/producers.service.ts';

const DEFAULT_TIMEOUT_MS = 5_000;
const MAX_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
/** A header must not grow with the number of proxies. */
const MAX_NAMED = 50;

/** The query of an operation that can wait until its change has reached all proxies. */
const WaitQuery = Strict({
  wait: Type.Optional(
    OneOf(['propagated'], {
      title: 'Wait',
      description: 'Respond once no proxy serves the state before the change, or after timeout_ms.',
    }),
  ),
  timeout_ms: Type.Optional(
    QueryInteger({
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      default: DEFAULT_TIMEOUT_MS,
      description: 'How long to wait at most, in milliseconds.',
    }),
  ),
});
type WaitQuery = Static<typeof WaitQuery>;

/**
 * Lets every route whose config says `propagates` wait, if its query asks for it, until no proxy serves the state before the
 * change. Response headers name the proxies that still may. Call it before these routes are registered.
 */
export function acceptWait(api: FastifyInstance, db: Database): void {
  const serving = new SharedRead(() => servingProxies(db));
  const awaitPropagation = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { wait, timeout_ms } = request.query as WaitQuery;
    if (wait === undefined || reply.statusCode >= 400) return;
    const timeoutMs = Number(timeout_ms ?? DEFAULT_TIMEOUT_MS);
    const revision = await currentRevision(db);
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const pending = (await serving.next()).filter(({ appliedRevision }) => appliedRevision < revision);
      if (pending.length === 0 || Date.now() >= deadline || request.socket.destroyed) {
        return showPending(reply, pending);
      }
    }
  };
  api.addHook('onRoute', (route) => {
    if (!route.config?.propagates) return;
    const { properties = {} } = (route.schema?.querystring ?? {}) as Partial<TObject>;
    route.schema = { ...route.schema, querystring: Strict({ ...properties, ...WaitQuery.properties }) };
    // Before the change is made.
    route.preValidation = [
      ...[route.preValidation ?? []].flat(),
      async ({ query }) => {
        const { timeout_ms: timeout } = query as { timeout_ms?: unknown };
        if (typeof timeout === 'string') wholeNumber('timeout_ms', timeout, 0, MAX_TIMEOUT_MS);
      },
    ];
    route.preSerialization = [
      ...[route.preSerialization ?? []].flat(),
      async (request, reply, payload) => {
        await awaitPropagation(request, reply);
        return payload;
      },
    ];
  });
}

function showPending(reply: FastifyReply, pending: readonly ServingProxy[]): void {
  reply.header('x-svc-propagated', String(pending.length === 0));
  if (pending.length === 0) return;
  const ids = pending.slice(0, MAX_NAMED).map(({ id }) => id);
  reply.header('x-svc-pending-proxies', ids.join(','));
}

/** Reads for all who wait at once, so that a thousand waiting callers cost the database as much as one. */
class SharedRead<T> {
  readonly #read: () => Promise<T>;
  #next: Promise<T> | undefined;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  /** The result of a read that starts after this call. */
  next(): Promise<T> {
    this.#next ??= sleep(POLL_MS).then(() => {
      this.#next = undefined;
      return this.#read();
    });
    return this.#next;
  }
}
