import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SentEvent } from '../describeEvent.ts';
import { messageBody, type WebhookFormat } from './message.ts';
import { harmless } from './slack.ts';

const HOSTILE = [
  '<!channel> pay up',
  '<@U123|boss>',
  '<https://evil.test|Click here>',
  'https://evil.test/login',
  '@here *now* _really_ ~gone~ `rm -rf`',
  '[Click](https://evil.test)',
  '&lt;!channel&gt;',
  '"}],"routing_key":"stolen","x":[{"a":"',
  'a\u202eb\u0000c\nd\u2028e\u200b',
  '<at>everyone</at>',
  '$'.concat('{jndi:ldap://evil.test}'),
];

function event(name: string): SentEvent {
  return {
    id: 'evt_1',
    type: 'budget.threshold',
    at: new Date('2026-11-23T09:00:00Z'),
    data: {
      policy_id: 'pol_1',
      policy_name: name,
      counter: 'key',
      key_id: 'key_1',
      key_name: name,
      percent: 80,
      window: 'month',
      window_start: '2026-11-01T00:00:00.000Z',
      reset: '2026-12-01T00:00:00.000Z',
      limit_micro_usd: 50_000_000,
      spent_micro_usd: 40_120_000,
      url: 'https://llm.acme.example/api/v1/policies/pol_1/counters',
    },
  };
}

function sent(format: WebhookFormat, name: string): unknown {
  return JSON.parse(messageBody(format, event(name), 'R0UT1NG'));
}

type Node = Record<string, unknown>;

/** Every object in a message. */
function objectsOf(value: unknown): Node[] {
  if (Array.isArray(value)) return value.flatMap(objectsOf);
  if (typeof value !== 'object' || value === null) return [];
  return [value as Node, ...Object.values(value).flatMap(objectsOf)];
}

/** The message without the values of its texts. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([field, inner]) => [field, shapeOf(inner)]));
  }
  return typeof value === 'string' ? 'text' : value;
}

describe('a message', () => {
  it('is what Slack, Teams and PagerDuty take', () => {
    expect(sent('slack', 'search')).toMatchObject({
      text: '80 % of the budget is used: the key search',
      blocks: [
        { type: 'header', text: { type: 'plain_text' } },
        {
          type: 'section',
          fields: expect.arrayContaining([
            { type: 'plain_text', text: 'Spent\n$40.12 of $50.00', emoji: false },
          ]),
        },
        { text: { text: '<https://llm.acme.example/api/v1/policies/pol_1/counters|Details>' } },
      ],
    });
    expect(sent('teams', 'search')).toMatchObject({
      type: 'message',
      attachments: [
        {
          contentType: 'application/vnd.microsoft.card.adaptive',
          content: { type: 'AdaptiveCard', body: expect.any(Array), actions: [{ type: 'Action.OpenUrl' }] },
        },
      ],
    });
    expect(sent('pagerduty', 'search')).toMatchObject({
      routing_key: 'R0UT1NG',
      event_action: 'trigger',
      dedup_key: 'evt_1',
      payload: {
        summary: '80 % of the budget is used: the key search',
        source: 'weighbridge',
        severity: 'warning',
        timestamp: '2026-11-23T09:00:00.000Z',
        custom_details: { Policy: 'search', Spent: '$40.12 of $50.00' },
      },
    });
  });

  it.each(['slack', 'teams', 'pagerduty'] as const)(
    'for %s has one shape, whatever names are in it',
    (format) => {
      const shape = shapeOf(sent(format, 'search'));
      for (const name of HOSTILE) expect(shapeOf(sent(format, name))).toEqual(shape);
      fc.assert(
        fc.property(
          fc.string({ minLength: 1, unit: 'binary' }).filter((name) => /\p{L}/u.test(name)),
          (name) => {
            expect(shapeOf(sent(format, name))).toEqual(shape);
          },
        ),
        { numRuns: 300 },
      );
    },
  );

  it('has no name in a text with markup', () => {
    for (const name of HOSTILE) {
      const marked = objectsOf(sent('slack', name)).filter(({ type }) => type === 'mrkdwn');
      expect(JSON.stringify(sent('slack', name)).replaceAll(String(marked[0]?.text), '')).not.toMatch(
        /<[!@#h]/,
      );
      expect(marked.map(({ text }) => text)).toEqual([
        '<https://llm.acme.example/api/v1/policies/pol_1/counters|Details>',
      ]);
      const kinds = objectsOf(sent('teams', name)).map(({ type }) => type);
      expect(kinds).not.toContain('TextBlock');
    }
  });

  it('has a text without mentions, links and markup for chats that know no blocks', () => {
    for (const name of HOSTILE) {
      const { text } = sent('slack', name) as { text: string };
      expect(text).not.toMatch(/[<>]|@\w|:\/\/|\]\(|\*\w|_\w|`\w|~\w|\p{Cc}|[\u202e\u2028]/u);
    }
    expect(harmless('a & b')).toBe('a &amp; b');
  });

  it('is short, whatever is in it', () => {
    for (const format of ['slack', 'teams', 'pagerduty'] as const) {
      expect(JSON.stringify(sent(format, '𝒳'.repeat(50_000))).length).toBeLessThan(6_000);
    }
  });
});
