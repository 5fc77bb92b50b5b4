import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { versionedFields } from '../../shared/preconditions.ts';
import { NewOverride, Override, OverrideChanges, OverrideQuery } from './overrides.schemas.ts';
import {
  changeOverride,
  createOverride,
  endOverride,
  listOverrides,
  type OverrideDeps,
  visibleOverride,
} from './overrides.service.ts';

const Params = Type.Object({ override_id: Type.String() });
/** Without what changes with time, and with the policy. */
const VERSIONED = {
  versioned: versionedFields(Override, 'policy_name', 'active', 'ended_at'),
} as const;
/** Proxies learn of a limit by their next lease call. A plan may contain it. */
const CHANGES = { ...VERSIONED, scope: 'operator', plannable: true } as const;

export function overrideRoutes(app: App, deps: OverrideDeps): void {
  const assertExists = async ({ caller, params }: FastifyRequest) =>
    await visibleOverride(deps, caller, (params as Static<typeof Params>).override_id);
  readRoutes(app, deps, assertExists);

  app.post(
    '/overrides',
    {
      config: CHANGES,
      schema: {
        operationId: 'createOverride',
        summary: 'Give one counter of a policy another limit for a while',
        body: NewOverride,
        response: { 201: Override },
      },
    },
    async ({ caller, body }, reply) => reply.code(201).send(await createOverride(deps, caller, body)),
  );

  app.patch(
    '/overrides/:override_id',
    {
      config: { ...CHANGES, assertExists },
      schema: {
        operationId: 'updateOverride',
        summary: 'Update an override that has not ended',
        params: Params,
        body: OverrideChanges,
        response: { 200: Override },
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await changeOverride(deps, caller, params.override_id, body, assertMatch),
  );

  app.delete(
    '/overrides/:override_id',
    {
      config: { ...CHANGES, assertExists },
      schema: {
        operationId: 'endOverride',
        summary: 'End an override before its time. It stays in the list',
        params: Params,
        response: { 200: Override },
      },
    },
    async ({ caller, params, assertMatch }) =>
      await endOverride(deps, caller, params.override_id, assertMatch),
  );
}

function readRoutes(
  app: App,
  deps: OverrideDeps,
  assertExists: (request: FastifyRequest) => Promise<Override>,
): void {
  app.get(
    '/overrides',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'listOverrides',
        summary: 'List overrides, newest first',
        description:
          'All, also those that ended; without a role that sees all spend, those of your own counters and of the teams that you lead.',
        querystring: OverrideQuery,
        response: { 200: Page(Override) },
      },
    },
    async ({ caller, query }) => await listOverrides(deps, caller, query),
  );

  app.get(
    '/overrides/:override_id',
    {
      config: { ...VERSIONED, scope: 'usage:read', assertExists },
      schema: {
        operationId: 'getOverride',
        summary: 'Retrieve an override',
        params: Params,
        response: { 200: Override },
      },
    },
    async ({ caller, params }) => await visibleOverride(deps, caller, params.override_id),
  );
}
