import { describeEvent, type SentEvent } from '../describeEvent.ts';
import { pagerdutyEvent } from './pagerduty.ts';
import { slackMessage } from './slack.ts';
import { teamsMessage } from './teams.ts';

export type WebhookFormat = 'json' | 'slack' | 'teams' | 'pagerduty';

/** The body of the message about an event: the same for each attempt. */
export function messageBody(format: WebhookFormat, event: SentEvent, routingKey: string | undefined): string {
  return JSON.stringify(message(format, event, routingKey));
}

function message(format: WebhookFormat, event: SentEvent, routingKey = ''): object {
  switch (format) {
    case 'json':
      return { type: event.type, timestamp: event.at.toISOString(), data: event.data };
    case 'slack':
      return slackMessage(describeEvent(event));
    case 'teams':
      return teamsMessage(describeEvent(event));
    case 'pagerduty':
      return pagerdutyEvent(event, describeEvent(event), routingKey);
  }
}
