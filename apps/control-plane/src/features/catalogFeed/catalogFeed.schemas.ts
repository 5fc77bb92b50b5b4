import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { FullPrice } from '../catalog/prices.schemas.ts';

const Count = Type.Integer({ minimum: 0 });

/** The feed of prices, and what its last document meant for the catalog. */
export const CatalogFeed = Type.Object(
  {
    state: OneOf(['off', 'waiting', 'ok', 'failing'], {
      title: 'CatalogFeedState',
      description:
        'off: CATALOG_FEED_URL is not set. waiting: it was not fetched yet. ok, failing: as the last fetch went; the prices in force stay.',
    }),
    url: Nullable(Type.String({ description: 'Without its query.' })),
    format: Nullable(
      OneOf(['genai-prices', 'models.dev', 'litellm'], {
        title: 'CatalogFeedFormat',
        description: "The project whose list it is, recognised by the document's content.",
      }),
    ),
    last_fetch_at: Nullable(DateTime),
    last_result: Nullable(
      OneOf(['applied', 'not_modified', 'failed'], {
        title: 'CatalogFeedResult',
        description: 'not_modified: the document is the same as before; it was applied again.',
      }),
    ),
    error: Nullable(Type.String({ description: 'Why the last fetch failed.' })),
    last_success_at: Nullable(DateTime),
    age_seconds: Nullable(Type.Integer({ description: 'Since the last success.' })),
    failing_since: Nullable(DateTime),
    next_fetch_at: Nullable(DateTime),
    entries: Type.Integer({ description: 'Models of the last document that was read, of any provider.' }),
    confirmed: Type.Integer({ description: 'Models of the catalog that have the price that it states.' }),
    applied: Type.Integer({ description: 'Prices that it changed.' }),
    added: Type.Integer({
      description: 'Models that it added to the catalog, also those whose first price is held.',
    }),
    left: Type.Integer({
      description:
        'Models that the catalog lacks and that were not added, since one fetch adds at most 100, and all fetches 1,000.',
    }),
    operator_prices: Type.Integer({
      description: 'Models that it has and whose price an operator set, which it never changes.',
    }),
    refused: Type.Integer({ description: 'Models of the catalog whose entry in it could not be used.' }),
    refused_examples: Type.Array(
      Type.Object({ model: Type.String(), reason: Type.String() }, { title: 'RefusedFeedEntry' }),
    ),
    held_changes: Count,
  },
  { title: 'CatalogFeed' },
);
export type CatalogFeed = Static<typeof CatalogFeed>;

const STATES = ['applied', 'held', 'approved', 'rejected', 'withdrawn'] as const;
const ChangeState = OneOf(STATES, {
  title: 'FeedChangeState',
  description:
    'applied: within bounds, so without a person. held: it waits for a decision. withdrawn: the feed stated another price before the decision.',
});

/** A price that the feed changed or wants to change. */
export const FeedChange = Type.Object(
  {
    id: Type.String(),
    model: Type.String(),
    state: ChangeState,
    adds_model: Type.Boolean({ description: 'With this price the feed added the model to the catalog.' }),
    held_because: Nullable(Type.String({ description: 'Why it waits for a decision; null: it does not.' })),
    price_before: Nullable(FullPrice),
    price_after: FullPrice,
    changed_fields: Type.Array(Type.String(), {
      description: 'The fields of the list price that differ, at any length of the input.',
    }),
    created_at: DateTime,
    decided_at: Nullable(DateTime),
  },
  { title: 'FeedChange' },
);
export type FeedChange = Static<typeof FeedChange>;

export const FeedChangesQuery = Strict({
  ...PageQuery,
  state: Type.Optional(ChangeState),
});
export type FeedChangesQuery = Static<typeof FeedChangesQuery>;
