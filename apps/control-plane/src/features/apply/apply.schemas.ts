import { type Static, Type } from 'typebox';
import type { Expected } from '../../shared/preconditions.ts';
import { Nullable, OneOf, Strict } from '../../shared/schemas.ts';

const MAX_CALLS = 20_000;

const PlannedCall = Strict(
  {
    method: OneOf(['POST', 'PUT', 'PATCH', 'DELETE'], { title: 'PlannedMethod' }),
    path: Type.String({
      pattern: '^/api/v1/[^\\u0000-\\u0020]+$',
      maxLength: 2_000,
      description: 'The path of an operation that changes the configuration.',
    }),
    body: Type.Optional(Type.Unknown({ description: 'The body of the call.' })),
    creates: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 500,
        description:
          'A placeholder for the id of what the call creates. Later calls may contain it in their paths, and as a value in their bodies.',
      }),
    ),
    expects: Type.Optional(
      Type.Unsafe<Expected>({
        title: 'ExpectedResource',
        type: ['object', 'null'],
        maxProperties: 200,
        additionalProperties: true,
        description:
          'The resource of the call as a list or a read showed it, whole or in part: if it has other values now, the call is refused with 412. What changes by itself is not compared. Null: there must be no such resource yet, as with `If-None-Match: *`.',
      }),
    ),
  },
  { title: 'PlannedCall' },
);
export type PlannedCall = Static<typeof PlannedCall>;

export const Plan = Strict(
  {
    calls: Type.Array(PlannedCall, { minItems: 1, maxItems: MAX_CALLS }),
    dry_run: Type.Optional(
      Type.Boolean({ default: false, description: 'Make the calls, and undo them all.' }),
    ),
  },
  { title: 'Plan' },
);
export type Plan = Static<typeof Plan>;

const PlanError = Type.Object(
  {
    index: Type.Integer({ description: 'Which of the calls, from 0.' }),
    status: Type.Integer({ description: 'The status of its response.' }),
    code: Type.String(),
    message: Type.String(),
    param: Nullable(Type.String()),
  },
  { title: 'PlanError' },
);
export type PlanError = Static<typeof PlanError>;

const PlanResult = Type.Object(
  {
    id: Type.Optional(Type.String({ description: 'The id of the resource, if it has one.' })),
    key: Type.Optional(Type.String({ description: 'The secret of a key that the call issued or rotated.' })),
    secret: Type.Optional(Type.String({ description: 'The secret of a webhook that the call created.' })),
  },
  { title: 'PlanResult' },
);
export type PlanResult = Static<typeof PlanResult>;

export const Applied = Type.Object(
  {
    dry_run: Type.Boolean(),
    calls: Type.Integer({
      description: 'How many calls were made. In a dry run, those that need what failed are not.',
    }),
    errors: Type.Array(PlanError, { description: 'Of a dry run; empty: all calls would succeed now.' }),
    results: Type.Array(PlanResult, {
      description: 'One for each call, in their order. Empty in a dry run.',
    }),
  },
  { title: 'Applied' },
);
export type Applied = Static<typeof Applied>;
