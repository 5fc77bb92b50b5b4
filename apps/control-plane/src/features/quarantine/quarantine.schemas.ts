import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';

const State = OneOf(['held', 'released', 'discarded'], { title: 'QuarantineState' });

const FIELDS = {
  id: Type.String({ examples: ['7'] }),
  kind: OneOf(['event', 'batch'], {
    title: 'QuarantineKind',
    description: 'A batch is one whose events could not be read.',
  }),
  state: State,
  reason: Type.String({ description: 'Why the ledger refused it.', examples: ['usage is missing'] }),
  received_at: DateTime,
  producer_id: Nullable(Type.String({ description: 'The spool that it was sent from.' })),
  epoch: Nullable(Type.String({ description: 'The id of the proxy that sent it.' })),
  shard: Nullable(Type.Integer()),
  n: Nullable(Type.Integer({ description: "Its number among the proxy's events of the shard." })),
  principal_id: Nullable(
    Type.String({
      description: "The principal whose spend it is; null if that cannot be read: it may be any principal's.",
    }),
  ),
  resolved_at: Nullable(DateTime),
  resolved_by: Nullable(Type.String()),
  note: Nullable(Type.String()),
};

export const QuarantinedUsage = Type.Object(FIELDS, { title: 'QuarantinedUsage' });
export type QuarantinedUsage = Static<typeof QuarantinedUsage>;

export const QuarantinedUsageWithPayload = Type.Object(
  {
    ...FIELDS,
    payload_base64: Type.String({ description: 'The message as it was received.', examples: ['CgNhYmM='] }),
  },
  { title: 'QuarantinedUsageWithPayload' },
);
export type QuarantinedUsageWithPayload = Static<typeof QuarantinedUsageWithPayload>;

export const NewDiscard = Strict(
  { note: Type.String({ minLength: 1, maxLength: 1_000, examples: ['sent by a load test'] }) },
  { title: 'NewDiscard' },
);

export const QuarantineListQuery = Strict({
  ...PageQuery,
  state: Type.Optional(State),
});
export type QuarantineListQuery = Static<typeof QuarantineListQuery>;
