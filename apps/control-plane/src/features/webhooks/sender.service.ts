import type { Logger, Metrics, ServiceContext } from '@weighbridge/runtime';
import { repeat } from '../../shared/repeat.ts';
import { type AttemptDeps, attemptDelivery } from './attempt.service.ts';
import { claimDelivery, findDueWebhooks, giveUpOverdue, pruneEvents } from './deliveries.repository.ts';
import { type DispatchDeps, dispatchEvents } from './dispatch.service.ts';
import { findWebhook, type WebhookRow } from './webhooks.repository.ts';

/** Of one webhook at once. A hanging endpoint holds up only its own messages. */
const LANES = 2;
const TICK_MS = 1_000;
const UPKEEP_MS = 60_000;
const KEPT_MS = 40 * 24 * 3_600_000;

type SenderDeps = AttemptDeps & DispatchDeps & { readonly logger: Logger; readonly metrics: Metrics };

/** Sends what the outbox has. Any number of control planes may do so: each takes what no other has taken. */
export function startSender(deps: SenderDeps, context: Pick<ServiceContext, 'onShutdown'>): void {
  const { logger } = deps;
  const sender = new Sender(deps);
  context.onShutdown('messages of webhooks', () => sender.stop());
  const tick = {
    name: 'outbox of webhooks',
    everyMs: TICK_MS,
    run: () => sender.tick(),
    onFailure: 'failed to read the outbox of webhooks; trying again',
  };
  repeat(tick, logger, context);
  const upkeep = {
    name: 'upkeep of webhooks',
    everyMs: UPKEEP_MS,
    run: () => sender.upkeep(),
    onFailure: 'failed to delete old messages of webhooks; trying again',
  };
  repeat(upkeep, logger, context);
}

class Sender {
  readonly #deps: SenderDeps;
  readonly #stopping = new AbortController();
  /** By webhook. */
  readonly #lanes = new Map<string, Set<Promise<void>>>();
  readonly #attempts: (outcome: string) => void;

  constructor(deps: SenderDeps) {
    this.#deps = deps;
    const attempts = deps.metrics.counter(
      'weighbridge_webhook_attempts_total',
      'Messages that were sent to webhooks, by outcome: delivered, failed (another attempt follows) or given_up.',
      ['outcome'],
    );
    this.#attempts = (outcome) => attempts.inc({ outcome });
  }

  async tick(): Promise<void> {
    const { db, now } = this.#deps;
    while (!this.#stopping.signal.aborted && (await dispatchEvents(this.#deps)) > 0);
    for (const id of await findDueWebhooks(db, now())) {
      const lanes = this.#lanes.get(id) ?? new Set();
      this.#lanes.set(id, lanes);
      while (lanes.size < LANES && !this.#stopping.signal.aborted) {
        const lane = this.#runLane(id).finally(() => {
          lanes.delete(lane);
          if (lanes.size === 0) this.#lanes.delete(id);
        });
        lanes.add(lane);
      }
    }
  }

  async upkeep(): Promise<void> {
    const { db, now, logger } = this.#deps;
    const at = now();
    const count = await giveUpOverdue(db, at);
    if (count > 0) logger.error({ count }, 'gave up messages of webhooks');
    await pruneEvents(db, new Date(at.getTime() - KEPT_MS));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#lanes.values()].flatMap((lanes) => [...lanes]));
  }

  /** Attempts deliveries of a webhook, one after the other, while any is due. */
  async #runLane(webhookId: string): Promise<void> {
    const { db, now, logger } = this.#deps;
    const { signal } = this.#stopping;
    try {
      while (!signal.aborted) {
        const webhook = await findWebhook(db, webhookId);
        if (!webhook?.enabled) return;
        const delivery = await claimDelivery(db, webhookId, now());
        if (!delivery) return;
        const { state, error } = await attemptDelivery(this.#deps, webhook, delivery, signal);
        this.#attempts(state === 'pending' ? 'failed' : state);
        if (state !== 'delivered') this.#report(webhook, delivery.event_id, state, error);
      }
    } catch (error) {
      logger.warn({ why: error, webhookId }, 'failed to send messages of a webhook; trying again');
    }
  }

  /** Without the URL, which may be a secret. */
  #report({ id, name }: WebhookRow, eventId: string, state: string, error: string | undefined): void {
    const fields = { webhookId: id, name, eventId, why: error };
    if (state === 'given_up') this.#deps.logger.error(fields, 'webhook delivery abandoned');
    else this.#deps.logger.warn(fields, 'failed to send a message of a webhook; trying again');
  }
}
