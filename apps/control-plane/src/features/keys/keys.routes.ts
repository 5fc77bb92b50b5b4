import { Type } from 'typebox';
import type { App } from '../../http/fastify.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../http/schemas.ts';
import { SCOPES } from '../access/scopes.ts';
import { changeKey, createKey, type KeyDeps, readKey, visibleKey } from './keys.service.ts';

const KIND = ['service', 'user'] as const;
const Labels = Type.Record(Type.String({ maxLength: 64 }), Type.String({ maxLength: 256 }), {
  maxProperties: 32,
});
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

export function keyRoutes(app: App, deps: KeyDeps): void {
  app.post(
    '/keys',
    {
      config: { scope: 'keys:write' },
      schema: {
        operationId: 'createKey',
        summary: 'Create a runtime key',
        body: NewKey,
        response: { 201: IssuedKey },
      },
    },
    async (request, reply) => reply.code(201).send(await createKey(deps, request.caller, request.body)),
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
        body: KeyChanges,
        response: { 200: Key },
      },
      // A key that the caller can't see is 404 whatever the body says: so before the body is parsed.
      preParsing: async (request) => {
        await visibleKey(deps, request.caller, request.params.key_id);
      },
    },
    async (request) => await changeKey(deps, request.caller, request.params.key_id, request.body),
  );
}
