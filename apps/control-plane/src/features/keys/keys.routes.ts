import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict, TextByName } from '../../shared/schemas.ts';
import { SCOPES } from '../../shared/scopes.ts';
import { awaitPropagation, WaitQuery } from '../propagation/propagation.service.ts';
import {
  changeKey,
  createKey,
  type KeyDeps,
  listKeys,
  readKey,
  revokeKey,
  rotateKey,
  visibleKey,
} from './keys.service.ts';

const KIND = ['service', 'user'] as const;
const Labels = TextByName({ maxLength: 256 }, { maxProperties: 32 });
const Text = Type.Optional(Type.String({ maxLength: 256 }));
const Attribution = Strict(
  { user: Text, team: Text, project: Text, env: Text, labels: Type.Optional(Labels) },
  { title: 'Attribution' },
);

const properties = {
  id: Type.String(),
  name: Type.String(),
  kind: OneOf(KIND),
  disabled: Type.Boolean(),
  expires_at: Nullable(DateTime),
  last_used_at: Nullable(DateTime),
  created_at: DateTime,
  updated_at: DateTime,
  revoked_at: Nullable(DateTime),
  policy_id: Type.String({ description: 'The policy that governs the key now.' }),
  key_hint: Type.String(),
  scopes: Type.Array(Type.String()),
  principal_id: Type.String(),
  attribution: Attribution,
};
const Key = Type.Object(properties, { title: 'Key' });
const IssuedKey = Type.Object(
  { ...properties, key: Type.String({ description: 'The secret; shown this once.' }) },
  { title: 'IssuedKey' },
);

const NewKey = Strict(
  {
    name: Type.String(),
    kind: Type.Optional(OneOf(KIND)),
    disabled: Type.Optional(Type.Boolean()),
    expires_at: Type.Optional(Nullable(DateTime)),
    policy_id: Type.Optional(Nullable(Type.String())),
    scopes: Type.Optional(Nullable(Type.Array(OneOf(SCOPES)) as never)),
    principal_id: Type.Optional(Type.String()),
    attribution: Type.Optional(Attribution),
  },
  { title: 'NewKey' },
);

const KeyChanges = Strict(
  {
    name: Type.Optional(Type.String()),
    disabled: Type.Optional(Type.Boolean()),
    expires_at: Type.Optional(Nullable(DateTime)),
    policy_id: Type.Optional(Nullable(Type.String())),
    attribution: Type.Optional(Attribution),
  },
  { title: 'KeyChanges' },
);

const KeyParams = Type.Object({ key_id: Type.String() });

const KeyList = Strict({
  ...PageQuery,
  principal_id: Type.Optional(Type.String()),
  policy_id: Type.Optional(Type.String({ description: 'The policy that governs the key.' })),
  kind: Type.Optional(OneOf(KIND)),
  disabled: Type.Optional(OneOf(['true', 'false'])),
  revoked: Type.Optional(OneOf(['true', 'false'])),
  expiring_before: Type.Optional(DateTime),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});

const MAX_GRACE_SECONDS = 30 * 24 * 60 * 60;
const Rotation = Strict({
  grace_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_GRACE_SECONDS,
      description: 'How long the old secret goes on working.',
    }),
  ),
});

export function keyRoutes(app: App, deps: KeyDeps): void {
  // A key that the caller can't see is 404 whatever the body says: so before the body is parsed.
  const keyIsVisible = async (request: FastifyRequest): Promise<void> => {
    await visibleKey(deps, request.caller, (request.params as Static<typeof KeyParams>).key_id);
  };

  app.post(
    '/keys',
    {
      config: { scope: 'keys:write' },
      schema: {
        operationId: 'createKey',
        summary: 'Create a runtime key',
        headers: Type.Object({ 'idempotency-key': Type.Optional(Type.String()) }),
        body: NewKey,
        response: { 201: IssuedKey },
      },
    },
    async (request, reply) => {
      const idempotencyKey = request.headers['idempotency-key'];
      const { answer, replayed } = await createKey(deps, request.caller, request.body, idempotencyKey);
      if (replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(201).send(answer);
    },
  );

  app.get(
    '/keys',
    {
      config: { scope: 'keys:read' },
      schema: {
        operationId: 'listKeys',
        summary: 'List runtime keys, the newest first',
        querystring: KeyList,
        response: { 200: Page(Key) },
      },
    },
    async (request) => await listKeys(deps, request.caller, request.query),
  );

  app.get(
    '/keys/:key_id',
    {
      config: { scope: 'keys:read' },
      schema: {
        operationId: 'getKey',
        summary: 'Retrieve a runtime key',
        params: KeyParams,
        response: { 200: Key },
      },
    },
    async (request) => await readKey(deps, request.caller, request.params.key_id),
  );

  app.patch(
    '/keys/:key_id',
    {
      config: { scope: 'keys:write' },
      schema: {
        operationId: 'updateKey',
        summary: 'Update a runtime key',
        params: KeyParams,
        querystring: WaitQuery,
        body: KeyChanges,
        response: { 200: Key },
      },
      preParsing: keyIsVisible,
    },
    async (request, reply) => {
      const key = await changeKey(deps, request.caller, request.params.key_id, request.body);
      await awaitPropagation(deps.db, request.query, reply);
      return key;
    },
  );

  app.delete(
    '/keys/:key_id',
    {
      config: { scope: 'keys:write' },
      schema: {
        operationId: 'revokeKey',
        summary: 'Revoke a runtime key for good',
        params: KeyParams,
        querystring: WaitQuery,
        response: { 200: Key },
      },
    },
    async (request, reply) => {
      const key = await revokeKey(deps, request.caller, request.params.key_id);
      await awaitPropagation(deps.db, request.query, reply);
      return key;
    },
  );

  app.post(
    '/keys/:key_id/rotate',
    {
      config: { scope: 'keys:write', bodyIsOptional: true },
      schema: {
        operationId: 'rotateKey',
        summary: 'Replace the secret of a runtime key',
        params: KeyParams,
        body: Rotation,
        response: { 200: IssuedKey },
      },
      preParsing: keyIsVisible,
      // Without a body there is no grace.
      preValidation: async (request) => {
        request.body ??= {};
      },
    },
    async (request) =>
      await rotateKey(deps, request.caller, request.params.key_id, request.body.grace_seconds ?? 0),
  );
}
