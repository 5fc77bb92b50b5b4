import { MAX_LIMIT_MICRO_USD, WINDOW_KINDS } from '@weighbridge/domain';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { CacheSettings, DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { awaitPropagation, WaitQuery } from '../propagation/propagation.service.ts';
import {
  changePolicy,
  createPolicy,
  deletePolicy,
  existingPolicy,
  listPolicies,
  type PolicyAdminDeps,
  readPolicy,
} from './policyAdmin.service.ts';

const MAX_PER_MINUTE = 2_147_483_647;
const PerMinute = Nullable(Type.Integer({ minimum: 1, maximum: MAX_PER_MINUTE }));
const settings = {
  name: Type.String(),
  limit_micro_usd: Nullable(
    Type.Integer({ minimum: 0, maximum: MAX_LIMIT_MICRO_USD, description: 'Null: unlimited.' }),
  ),
  window: OneOf(WINDOW_KINDS),
  timezone: Type.String({ maxLength: 100 }),
  counter_scope: OneOf(['key', 'principal', 'policy']),
  enforcement: OneOf(['enforce', 'shadow', 'off']),
  budget_mode: OneOf(['balanced', 'hard']),
  allowed_models: Type.Array(Type.String({ minLength: 1, maxLength: 300 }), {
    maxItems: 500,
    description: 'Anchored patterns, * for any characters; empty for all models.',
  }),
  requests_per_minute: PerMinute,
  tokens_per_minute: PerMinute,
  max_parallel: PerMinute,
  parent_policy_id: Nullable(Type.String()),
  default_for: Nullable(OneOf(['service', 'user', 'all'])),
  self_service: Type.Boolean(),
  profile_id: Nullable(Type.String()),
  cache: Nullable(CacheSettings),
  thresholds: Type.Array(Type.Integer({ minimum: 1, maximum: 100 }), {
    maxItems: 20,
    description: 'Percent of the limit.',
  }),
};

const { name, ...others } = settings;
const NewPolicy = Strict({ name, ...Type.Partial(Type.Object(others)).properties }, { title: 'NewPolicy' });
const PolicyChanges = Strict(Type.Partial(Type.Object(settings)).properties, { title: 'PolicyChanges' });
const Policy = Type.Object(
  { id: Type.String(), ...settings, created_at: DateTime, updated_at: DateTime },
  { title: 'Policy' },
);
const PolicyParams = Type.Object({ policy_id: Type.String() });

const PolicyList = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  default_for: Type.Optional(OneOf(['service', 'user', 'all'])),
  parent_policy_id: Type.Optional(Type.String()),
  self_service: Type.Optional(OneOf(['true', 'false'])),
});

export function policyRoutes(app: App, deps: PolicyAdminDeps): void {
  const config = { scope: 'operator' } as const;
  const policyExists = async (request: FastifyRequest): Promise<void> => {
    await existingPolicy(deps.db, (request.params as Static<typeof PolicyParams>).policy_id);
  };

  app.post(
    '/policies',
    {
      config,
      schema: {
        operationId: 'createPolicy',
        summary: 'Create a policy',
        body: NewPolicy,
        response: { 201: Policy },
      },
    },
    async (request, reply) => reply.code(201).send(await createPolicy(deps, request.caller, request.body)),
  );

  app.get(
    '/policies',
    {
      config,
      schema: {
        operationId: 'listPolicies',
        summary: 'List policies, the newest first',
        querystring: PolicyList,
        response: { 200: Page(Policy) },
      },
    },
    async (request) => await listPolicies(deps, request.query),
  );

  app.get(
    '/policies/:policy_id',
    {
      config,
      schema: {
        operationId: 'getPolicy',
        summary: 'Retrieve a policy',
        params: PolicyParams,
        response: { 200: Policy },
      },
    },
    async (request) => await readPolicy(deps, request.params.policy_id),
  );

  app.patch(
    '/policies/:policy_id',
    {
      config,
      schema: {
        operationId: 'updatePolicy',
        summary: 'Update a policy',
        params: PolicyParams,
        querystring: WaitQuery,
        body: PolicyChanges,
        response: { 200: Policy },
      },
      preParsing: policyExists,
    },
    async (request, reply) => {
      const policy = await changePolicy(deps, request.caller, request.params.policy_id, request.body);
      await awaitPropagation(deps.db, request.query, reply);
      return policy;
    },
  );

  app.delete(
    '/policies/:policy_id',
    {
      config,
      schema: {
        operationId: 'deletePolicy',
        summary: 'Delete a policy',
        params: PolicyParams,
        response: { 200: Policy },
      },
    },
    async (request) => await deletePolicy(deps, request.caller, request.params.policy_id),
  );
}
