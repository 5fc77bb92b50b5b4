import type { Description, SentEvent } from '../describeEvent.ts';

const MAX_SUMMARY = 1_024;

/**
 * An event of PagerDuty's Events API v2 (https://developer.pagerduty.com/docs/events-api-v2-overview). What is not ours is in
 * `custom_details`, under names of ours.
 */
export function pagerdutyEvent(
  { id, type, at }: SentEvent,
  { title, severity, facts, link }: Description,
  routingKey: string,
): object {
  return {
    routing_key: routingKey,
    event_action: 'trigger',
    dedup_key: id,
    payload: {
      summary: title.slice(0, MAX_SUMMARY),
      source: 'weighbridge',
      severity,
      timestamp: at.toISOString(),
      class: type,
      custom_details: Object.fromEntries(facts),
    },
    ...(link && { links: [{ href: link, text: 'Details' }] }),
  };
}
