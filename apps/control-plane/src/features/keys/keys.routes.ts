import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { IdempotencyHeaders } from '../idempotency/idempotencyKeys.ts';
import { createKey, type IssuingDeps } from './keyIssuing.service.ts';
import { revokeKey } from './keyRevocation.service.ts';
import {
  IssuedKey,
  Key,
  KeyChanges,
  KeyQuery,
  NewKey,
  RevocationQuery,
  RevokedKey,
  Rotation,
} from './keys.schemas.ts';
import { changeKey, type KeyDeps, listKeys, readKey, rotateKey, visibleKey } from './keys.service.ts';

const KeyParams = Type.Object({ key_id: Type.String() });

export function keyRoutes(app: App, deps: IssuingDeps): void {
  createRoute(app, deps);
  readRoutes(app, deps);
  changeRoutes(app, deps);
  rotateRoute(app, deps);
}

function createRoute(app: App, deps: IssuingDeps): void {
  app.post(
    '/keys',
    {
      config: { scope: 'keys:write', propagates: true },
      schema: {
        operationId: 'createKey',
        summary: 'Create a runtime key',
        headers: IdempotencyHeaders,
        body: NewKey,
        response: { 201: IssuedKey },
      },
    },
    async (request, reply) => {
      const idempotencyKey = request.headers['idempotency-key'];
      const { result, replayed } = await createKey(deps, request.caller, request.body, idempotencyKey);
      if (replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(201).send(result);
    },
  );
}

function readRoutes(app: App, deps: KeyDeps): void {
  const config = { scope: 'keys:read' } as const;

  app.get(
    '/keys',
    {
      config,
      schema: {
        operationId: 'listKeys',
        summary: 'List runtime keys, newest first',
        querystring: KeyQuery,
        response: { 200: Page(Key) },
      },
    },
    async (request) => await listKeys(deps, request.caller, request.query),
  );

  app.get(
    '/keys/:key_id',
    {
      config: { ...config, assertExists: assertVisible(deps) },
      schema: {
        operationId: 'getKey',
        summary: 'Retrieve a runtime key',
        params: KeyParams,
        response: { 200: Key },
      },
    },
    async (request) => await readKey(deps, request.caller, request.params.key_id),
  );
}

function changeRoutes(app: App, deps: KeyDeps): void {
  const config = { scope: 'keys:write', propagates: true, assertExists: assertVisible(deps) } as const;

  app.patch(
    '/keys/:key_id',
    {
      config,
      schema: {
        operationId: 'updateKey',
        summary: 'Update a runtime key',
        params: KeyParams,
        body: KeyChanges,
        response: { 200: Key },
      },
    },
    async (request) => await changeKey(deps, request.caller, request.params.key_id, request.body),
  );

  app.delete(
    '/keys/:key_id',
    {
      config,
      schema: {
        operationId: 'revokeKey',
        summary: 'Revoke a runtime key permanently',
        params: KeyParams,
        querystring: RevocationQuery,
        response: { 200: RevokedKey },
      },
    },
    async ({ caller, params, query }) =>
      await revokeKey(deps, caller, params.key_id, { descendants: query.descendants === 'true' }),
  );
}

function rotateRoute(app: App, deps: KeyDeps): void {
  app.post(
    '/keys/:key_id/rotate',
    {
      config: {
        scope: 'keys:write',
        propagates: true,
        bodyIsOptional: true,
        assertExists: assertVisible(deps),
      },
      schema: {
        operationId: 'rotateKey',
        summary: 'Replace the secret of a runtime key',
        description:
          'The id, the policy and the spend stay. A key may rotate itself. Without the scope `operator`, another key of the same principal is rotated only if it has the same counters and the same attribution: otherwise 403 `rotation_not_allowed`. In its grace period, the old secret can read and infer. Operations that change something answer it with 403 `secret_in_grace`.',
        params: KeyParams,
        body: Rotation,
        response: { 200: IssuedKey },
      },
      preValidation: async (request) => {
        if (request.body === undefined) request.body = {};
      },
    },
    async (request) =>
      await rotateKey(deps, request.caller, request.params.key_id, request.body.grace_seconds ?? 0),
  );
}

function assertVisible(deps: KeyDeps) {
  return async (request: FastifyRequest): Promise<void> => {
    await visibleKey(deps, request.caller, (request.params as Static<typeof KeyParams>).key_id);
  };
}
