import { MAX_LIMIT_MICRO_USD } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { DateTime, MicroUsd, Strict } from '../../shared/schemas.ts';

export const NewCorrection = Strict(
  {
    amount_micro_usd: Type.Integer({
      description: 'The amount to add to the cost; negative to reduce it.',
      minimum: -MAX_LIMIT_MICRO_USD,
      maximum: MAX_LIMIT_MICRO_USD,
      not: { const: 0 },
      examples: [-250_000],
    }),
    reason: Type.String({
      minLength: 1,
      maxLength: 1_000,
      examples: ["the vendor's invoice of May charges no tokens for it"],
    }),
    event_id: Type.Optional(
      Type.String({
        description: 'The attempt to correct; by default the first of the request.',
        examples: ['019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b'],
      }),
    ),
  },
  { title: 'NewCorrection' },
);
export type NewCorrection = Static<typeof NewCorrection>;

export const Correction = Type.Object(
  {
    event_id: Type.String({
      description: 'The id of the correction.',
      examples: ['019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1c'],
    }),
    corrects: Type.String({
      description: 'The event_id of the corrected attempt.',
      examples: ['019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b'],
    }),
    amount_micro_usd: MicroUsd,
    amount_nano_usd: Type.String({
      description: 'The exact amount, as a decimal integer.',
      examples: ['12345000000'],
    }),
    reason: Type.String(),
    unpriced: Type.Array(Type.String(), {
      description: 'As in an attempt: what the price lacked when a background response was settled.',
    }),
    recorded_at: DateTime,
  },
  { title: 'Correction' },
);
export type Correction = Static<typeof Correction>;
