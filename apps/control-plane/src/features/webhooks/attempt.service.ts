import type { Database } from '@weighbridge/database';
import { NOT_PUBLIC } from '@weighbridge/runtime';
import { outgoingRequest, readStart } from '../../shared/outgoingRequest.ts';
import type { UpstreamHosts } from '../connectors/upstreamHosts.ts';
import { type DeliveryRow, recordAttempt } from './deliveries.repository.ts';
import type { EventData, SentEventType } from './describeEvent.ts';
import { messageBody } from './formats/message.ts';
import { routingKeyOf, type Secrets, signingSecrets } from './secrets.ts';
import { signatureHeaders } from './signature.ts';
import type { WebhookRow } from './webhooks.repository.ts';

export interface AttemptDeps extends Secrets {
  readonly db: Database;
  readonly now: () => Date;
  readonly webhookHosts: UpstreamHosts;
  /** Of a whole attempt. Default: 10 s. */
  readonly attemptTimeoutMs?: number;
}

export interface AttemptResult {
  readonly state: 'pending' | 'delivered' | 'given_up';
  /** Null: there was no answer. */
  readonly status: number | null;
  readonly durationMs: number;
  /** Undefined: it was delivered. */
  readonly error: string | undefined;
}

const ATTEMPT_TIMEOUT_MS = 10_000;
const MAX_BODY_BYTES = 8_192;
const MAX_EXCERPT = 200;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
/** Before the next attempt; the last one repeats. */
const BACKOFF_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
];
const MAX_RETRY_AFTER_SECONDS = 3_600;

/** Sends the message of a claimed delivery once, and records the outcome. Rejects only if that can't be recorded. */
export async function attemptDelivery(
  deps: AttemptDeps,
  webhook: WebhookRow,
  delivery: DeliveryRow,
  stopping?: AbortSignal,
): Promise<AttemptResult> {
  const began = performance.now();
  const sent = await send(deps, webhook, delivery, stopping);
  const durationMs = Math.round(performance.now() - began);
  const now = deps.now();
  const next = new Date(now.getTime() + delayMs(delivery.attempts, sent.retryAfterSeconds));
  const isLast = next > delivery.give_up_at;
  const state = sent.error === undefined ? 'delivered' : isLast ? 'given_up' : 'pending';
  await recordAttempt(deps.db, delivery, {
    state,
    status: sent.status,
    duration_ms: durationMs,
    error: sent.error ?? null,
    // A stop of this process says nothing of the endpoint.
    next_attempt_at: state === 'pending' ? (stopping?.aborted ? now : next) : null,
  });
  return { state, status: sent.status, durationMs, error: sent.error };
}

interface Sent {
  readonly status: number | null;
  readonly error?: string;
  readonly retryAfterSeconds?: number;
}

async function send(
  deps: AttemptDeps,
  webhook: WebhookRow,
  delivery: DeliveryRow,
  stopping: AbortSignal | undefined,
): Promise<Sent> {
  const timeoutMs = deps.attemptTimeoutMs ?? ATTEMPT_TIMEOUT_MS;
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const url = new URL(webhook.url);
    const body = messageBody(webhook.format, eventOf(delivery), routingKeyOf(deps, webhook));
    const at = deps.now();
    const response = await outgoingRequest({
      method: 'POST',
      url,
      headers: {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(body)),
        ...signatureHeaders({ id: delivery.event_id, at, body }, signingSecrets(deps, webhook, at)),
      },
      body,
      allowPrivateAddress: deps.webhookHosts.allows(url),
      signal: stopping ? AbortSignal.any([timeout, stopping]) : timeout,
    });
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) {
      response.destroy();
      return { status };
    }
    const retryAfterSeconds = Number(response.headers['retry-after']);
    const answer = await readStart(response, MAX_BODY_BYTES).catch(() => '');
    return {
      status,
      error: refusal(status, answer),
      ...(retryAfterSeconds > 0 && { retryAfterSeconds }),
    };
  } catch (error) {
    if (timeout.aborted) return { status: null, error: `It did not answer within ${timeoutMs} ms.` };
    return { status: null, error: failure(error) };
  }
}

function eventOf({ event_id, type, data, event_at }: DeliveryRow) {
  return { id: event_id, type: type as SentEventType, at: event_at, data: data as EventData };
}

function delayMs(attempts: number, retryAfterSeconds = 0): number {
  const backoff = BACKOFF_MS[Math.min(attempts, BACKOFF_MS.length) - 1] ?? HOUR_MS;
  // Not all at the same time after an outage.
  const spread = backoff * (0.9 + Math.random() * 0.2);
  return Math.max(spread, Math.min(retryAfterSeconds, MAX_RETRY_AFTER_SECONDS) * SECOND_MS);
}

function refusal(status: number, answer: string): string {
  if (status >= 300 && status < 400) {
    return `It redirects to another address (${status}), which is not followed. Set the url to the final address.`;
  }
  const excerpt = answer.replace(/[\s\p{C}]+/gu, ' ').trim();
  return `It answered with ${status}${excerpt && `: ${excerpt.slice(0, MAX_EXCERPT)}`}`;
}

function failure(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === NOT_PUBLIC) {
    return 'Its host has an address that is not public. To allow it, add the host to ALLOWED_WEBHOOK_HOSTS.';
  }
  if (typeof code === 'string') return `It could not be reached (${code}).`;
  return `The message was not sent: ${message}`;
}
