import { type Static, Type } from 'typebox';
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
  },
  { title: 'PlannedCall' },
);
export type PlannedCall = Static<typeof PlannedCall>;

export const Plan = Strict(
  { calls: Type.Array(PlannedCall, { minItems: 1, maxItems: MAX_CALLS }) },
  { title: 'Plan' },
);

const PlanError = Type.Object(
  {
    index: Type.Integer({ description: 'Which of the calls, from 0.' }),
    status: Type.Integer({ description: 'What it would be answered with.' }),
    code: Type.String(),
    message: Type.String(),
    param: Nullable(Type.String()),
  },
  { title: 'PlanError' },
);
export type PlanError = Static<typeof PlanError>;

export const PlanCheck = Type.Object(
  {
    checked: Type.Integer({ description: 'How many calls were tried. Those that need what failed are not.' }),
    errors: Type.Array(PlanError, { description: 'Empty: all would succeed now.' }),
  },
  { title: 'PlanCheck' },
);
export type PlanCheck = Static<typeof PlanCheck>;
