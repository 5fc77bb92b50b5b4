import { MAX_LIMIT_MICRO_USD, STRATEGIES } from '@weighbridge/domain';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { CacheSettings, DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import {
  changeProfile,
  createProfile,
  deleteProfile,
  existingProfile,
  listProfiles,
  type ProfileDeps,
  readProfile,
} from './profiles.service.ts';

const Price = Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_LIMIT_MICRO_USD }));
const Target = Strict({
  model: Type.String({ minLength: 1, maxLength: 300 }),
  weight: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
});
const Constraints = Strict({
  context_window: Type.Optional(Type.Integer({ minimum: 1 })),
  max_input_price_micro_usd: Price,
  max_output_price_micro_usd: Price,
  min_score: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  capabilities: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 50 }), { maxItems: 20 })),
});
const settings = {
  name: Type.String(),
  strategy: OneOf(STRATEGIES),
  targets: Type.Array(Target, { minItems: 1, maxItems: 50 }),
};

const NewProfile = Strict(
  { ...settings, constraints: Type.Optional(Constraints), cache: Type.Optional(Nullable(CacheSettings)) },
  { title: 'NewProfile' },
);
const ProfileChanges = Strict(Type.Partial(NewProfile).properties, { title: 'ProfileChanges' });
const Profile = Type.Object(
  {
    id: Type.String(),
    ...settings,
    constraints: Constraints,
    cache: Nullable(CacheSettings),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Profile' },
);
const ProfileParams = Type.Object({ profile_id: Type.String() });
const ProfileList = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});

export function profileRoutes(app: App, deps: ProfileDeps): void {
  const config = { scope: 'operator' } as const;
  const profileExists = async (request: FastifyRequest): Promise<void> => {
    await existingProfile(deps.db, (request.params as Static<typeof ProfileParams>).profile_id);
  };

  app.post(
    '/profiles',
    {
      config,
      schema: {
        operationId: 'createProfile',
        summary: 'Create a routing profile',
        body: NewProfile,
        response: { 201: Profile },
      },
    },
    async (request, reply) => reply.code(201).send(await createProfile(deps, request.caller, request.body)),
  );

  app.get(
    '/profiles',
    {
      config,
      schema: {
        operationId: 'listProfiles',
        summary: 'List routing profiles by name',
        querystring: ProfileList,
        response: { 200: Page(Profile) },
      },
    },
    async (request) => await listProfiles(deps, request.query),
  );

  app.get(
    '/profiles/:profile_id',
    {
      config,
      schema: {
        operationId: 'getProfile',
        summary: 'Retrieve a routing profile',
        params: ProfileParams,
        response: { 200: Profile },
      },
    },
    async (request) => await readProfile(deps, request.params.profile_id),
  );

  app.patch(
    '/profiles/:profile_id',
    {
      config,
      schema: {
        operationId: 'updateProfile',
        summary: 'Update a routing profile',
        params: ProfileParams,
        body: ProfileChanges,
        response: { 200: Profile },
      },
      preParsing: profileExists,
    },
    async (request) => await changeProfile(deps, request.caller, request.params.profile_id, request.body),
  );

  app.delete(
    '/profiles/:profile_id',
    {
      config,
      schema: {
        operationId: 'deleteProfile',
        summary: 'Delete a routing profile',
        params: ProfileParams,
        response: { 200: Profile },
      },
      preParsing: profileExists,
    },
    async (request) => await deleteProfile(deps, request.caller, request.params.profile_id),
  );
}
