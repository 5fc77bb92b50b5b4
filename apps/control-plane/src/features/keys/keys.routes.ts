import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { versionedFields } from '../../shared/preconditions.ts';
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
import { createPlaygroundKey } from './playgroundKeys.service.ts';

/** Without what others change: its use, and which policy governs it if it names none. */
const VERSIONED = { versioned: versionedFields(Key, 'last_used_at', 'grace_ends_at', 'policy_id') } as const;
const KeyParams = Type.Object({ key_id: Type.String() });

export function keyRoutes(app: App, deps: IssuingDeps): void {
  createRoute(app, deps);
  playgroundRoute(app, deps);
  readRoutes(app, deps);
  changeRoutes(app, deps);
  rotateRoute(app, deps);
}

function createRoute(app: App, deps: IssuingDeps): void {
  app.post(
    '/keys',
    {
      config: { ...VERSIONED, scope: 'keys:write', propagates: true },
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

function playgroundRoute(app: App, deps: IssuingDeps): void {
  app.post(
    '/keys/playground',
    {
      config: { scope: 'usage:read', propagates: true },
      schema: {
        operationId: 'createPlaygroundKey',
        summary: 'Create a 15-minute playground key',
        description:
          'It counts where your own requests do. A sixth one ends the oldest; signing out of the console ends those of the session.',
        headers: IdempotencyHeaders,
        response: { 201: IssuedKey },
      },
    },
    async (request, reply) => {
      const idempotencyKey = request.headers['idempotency-key'];
      const { result, replayed } = await createPlaygroundKey(deps, request.caller, idempotencyKey);
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
      config: { ...config, ...VERSIONED, assertExists: assertVisible(deps) },
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
  const config = {
    ...VERSIONED,
    scope: 'keys:write',
    propagates: true,
    assertExists: assertVisible(deps),
  } as const;

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
    async ({ caller, params, body, assertMatch }) =>
      await changeKey(deps, caller, params.key_id, body, assertMatch),
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
    async ({ caller, params, query, assertMatch }) => {
      const options = { descendants: query.descendants === 'true' };
      return await revokeKey(deps, caller, params.key_id, options, assertMatch);
    },
  );
}

function rotateRoute(app: App, deps: KeyDeps): void {
  app.post(
    '/keys/:key_id/rotate',
    {
      config: {
        ...VERSIONED,
        dependsOn: VERSIONED.versioned,
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
    async ({ caller, params, body, assertMatch }) =>
      await rotateKey(deps, caller, params.key_id, body.grace_seconds ?? 0, assertMatch),
  );
}

function assertVisible(deps: KeyDeps) {
  return async (request: FastifyRequest): Promise<void> => {
    await visibleKey(deps, request.caller, (request.params as Static<typeof KeyParams>).key_id);
  };
}
