import { WEBHOOK_EVENTS } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { ByName, DateTime, Nullable, OneOf, QueryBoolean, Strict } from '../../shared/schemas.ts';

const WEBHOOK_FORMATS = ['json', 'slack', 'teams', 'pagerduty'] as const;

const EventType = OneOf(WEBHOOK_EVENTS, { title: 'WebhookEventType' });
/** Of a message by `testWebhook`. */
export const TEST_EVENT = 'webhook.test';

const Filter = Strict(
  {
    policy_ids: Type.Optional(
      Type.Array(Type.String({ maxLength: 100 }), {
        maxItems: 100,
        description: 'Only events of these policies, or of policies below them. Empty: of all.',
        examples: [[]],
      }),
    ),
    team_ids: Type.Optional(
      Type.Array(Type.String({ maxLength: 100 }), {
        maxItems: 100,
        description:
          'Only events of these teams, or of teams below them: of their members, and of policies for them. Empty: of all.',
        examples: [[]],
      }),
    ),
  },
  {
    title: 'WebhookFilter',
    description:
      'With both, an event must pass both. One that concerns no policy or no team, such as connector.down, passes no filter by them.',
  },
);

const settings = {
  name: Type.String({ description: 'Unique.', examples: ['on-call'] }),
  url: Type.String({
    maxLength: 2_000,
    description:
      'Where messages are posted to: https:// and a public address. ALLOWED_WEBHOOK_HOSTS allows others. Whoever is no operator sees its host alone.',
    examples: ['https://hooks.acme.example/weighbridge'],
  }),
  format: OneOf(WEBHOOK_FORMATS, {
    title: 'WebhookFormat',
    description:
      'The shape of messages: `json` is {type, timestamp, data}; the others are what Slack, Microsoft Teams (Workflows) and PagerDuty (Events API v2) take.',
  }),
  events: Type.Array(EventType, { maxItems: 50, description: 'What it is told of. Empty: of all.' }),
  enabled: Type.Boolean(),
};

/** Where operators learn of events. */
export const Webhook = Type.Object(
  {
    id: Type.String(),
    ...settings,
    filter: Type.Object(
      {
        policy_ids: Type.Array(Type.String(), { examples: [[]] }),
        team_ids: Type.Array(Type.String(), { examples: [[]] }),
      },
      { title: 'AppliedWebhookFilter' },
    ),
    previous_secret_until: Nullable(
      Type.String({
        format: 'date-time',
        description: 'Until when messages carry the signature of the secret before the rotation as well.',
        examples: [null],
      }),
    ),
    pending: Type.Integer({
      description: 'Deliveries that are still tried.',
      minimum: 0,
      examples: [0],
    }),
    last_delivered_at: Nullable(Type.String({ format: 'date-time', examples: [null] })),
    last_error: Nullable(
      Type.String({
        description: 'Why the last attempt failed; null if it did not.',
        examples: [null],
      }),
    ),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Webhook' },
);
export type Webhook = Static<typeof Webhook>;

export const WebhookWithSecret = Type.Object(
  {
    ...Webhook.properties,
    secret: Type.String({
      description: 'What signatures are verified with. It is shown once.',
      examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    }),
  },
  { title: 'WebhookWithSecret' },
);
export type WebhookWithSecret = Static<typeof WebhookWithSecret>;

const secrets = {
  secret: Type.Optional(
    Type.String({
      maxLength: 200,
      description: '`whsec_` and 24 to 64 bytes in base64. Without it, one is made.',
    }),
  ),
  routing_key: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Of the format pagerduty: the integration key of the service. It is never shown.',
    }),
  ),
};

export const NewWebhook = Strict(
  {
    name: settings.name,
    url: settings.url,
    format: Type.Optional(settings.format),
    events: Type.Optional(settings.events),
    filter: Type.Optional(Filter),
    enabled: Type.Optional(settings.enabled),
    ...secrets,
  },
  { title: 'NewWebhook' },
);
export type NewWebhook = Static<typeof NewWebhook>;

const { secret: _, ...changeable } = Type.Partial(NewWebhook).properties;
export const WebhookChanges = Strict(changeable, { title: 'WebhookChanges' });
export type WebhookChanges = Static<typeof WebhookChanges>;

export const WebhookQuery = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  enabled: Type.Optional(QueryBoolean('Only webhooks that are enabled, or that are not.')),
});
export type WebhookQuery = Static<typeof WebhookQuery>;

export const WebhookRotation = Strict(
  {
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 7 * 86_400,
        default: 0,
        description: 'For how long messages carry the signature of the old secret as well.',
      }),
    ),
  },
  { title: 'WebhookRotation' },
);

const DELIVERY_STATES = ['pending', 'delivered', 'given_up'] as const;
const DeliveryState = OneOf(DELIVERY_STATES, {
  title: 'WebhookDeliveryState',
  description: '`given_up`: every attempt of a day failed.',
});

const WebhookEvent = Type.Object(
  {
    id: Type.String({ description: 'The `webhook-id` of every message about it.' }),
    type: Type.String({ description: 'As in `events` of a webhook, or `webhook.test`.' }),
    timestamp: DateTime,
    data: ByName(Type.Unknown(), {
      title: 'WebhookEventData',
      maxProperties: 50,
      description: 'By the type of the event.',
    }),
  },
  { title: 'WebhookEvent' },
);

/** An event for one webhook, and how its delivery goes. */
export const WebhookDelivery = Type.Object(
  {
    id: Type.String(),
    webhook_id: Type.String(),
    event: WebhookEvent,
    state: DeliveryState,
    attempts: Type.Integer({ minimum: 0 }),
    next_attempt_at: Nullable(Type.String({ format: 'date-time' })),
    last_attempt_at: Nullable(Type.String({ format: 'date-time' })),
    status: Nullable(Type.Integer({ description: "The last answer's; null if there was none." })),
    duration_ms: Nullable(Type.Integer({ description: 'Of the last attempt.' })),
    error: Nullable(Type.String({ description: 'Why the last attempt failed; null if it did not.' })),
    created_at: DateTime,
  },
  { title: 'WebhookDelivery' },
);
export type WebhookDelivery = Static<typeof WebhookDelivery>;

export const DeliveryQuery = Strict({ ...PageQuery, state: Type.Optional(DeliveryState) });
export type DeliveryQuery = Static<typeof DeliveryQuery>;

export const WebhookTest = Type.Object(
  {
    ok: Type.Boolean(),
    status: Nullable(Type.Integer({ description: "The endpoint's status; null if it sent no response." })),
    latency_ms: Type.Integer(),
    message: Type.String(),
    delivery_id: Type.String({ description: 'What the log shows it as.' }),
  },
  { title: 'WebhookTest' },
);
export type WebhookTest = Static<typeof WebhookTest>;
