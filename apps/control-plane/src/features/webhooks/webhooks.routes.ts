import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { versionedFields } from '../../shared/preconditions.ts';
import { IdempotencyHeaders } from '../idempotency/idempotencyKeys.ts';
import { existingDelivery, listDeliveries, redeliver, testWebhook } from './deliveries.service.ts';
import {
  DeliveryQuery,
  NewWebhook,
  Webhook,
  WebhookChanges,
  WebhookDelivery,
  WebhookQuery,
  WebhookRotation,
  WebhookTest,
  WebhookWithSecret,
} from './webhooks.schemas.ts';
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  existingWebhook,
  listWebhooks,
  readWebhook,
  rotateWebhook,
  type WebhookDeps,
} from './webhooks.service.ts';

const WebhookParams = Type.Object({ webhook_id: Type.String() });
const DeliveryParams = Type.Object({ webhook_id: Type.String(), delivery_id: Type.String() });
const SCOPE = { scope: 'operator' } as const;
/** Without what deliveries change. */
const VERSIONED = {
  versioned: versionedFields(Webhook, 'pending', 'last_delivered_at', 'last_error'),
} as const;
/** A plan may contain it. */
const CHANGES = { ...SCOPE, plannable: true } as const;

export function webhookRoutes(app: App, deps: WebhookDeps): void {
  const ofWebhook = {
    assertExists: async ({ params }: FastifyRequest) =>
      await existingWebhook(deps.db, (params as { webhook_id: string }).webhook_id),
  };
  collectionRoutes(app, deps);
  itemRoutes(app, deps, ofWebhook);
  secretRoute(app, deps, ofWebhook);
  deliveryRoutes(app, deps, ofWebhook);
}

type OfWebhook = { readonly assertExists: (request: FastifyRequest) => Promise<unknown> };

function collectionRoutes(app: App, deps: WebhookDeps): void {
  app.post(
    '/webhooks',
    {
      config: { ...CHANGES, ...VERSIONED },
      schema: {
        operationId: 'createWebhook',
        summary: 'Create a webhook. Its secret is shown once',
        headers: IdempotencyHeaders,
        body: NewWebhook,
        response: { 201: WebhookWithSecret },
      },
    },
    async ({ caller, body, headers }, reply) => {
      const { result, replayed } = await createWebhook(deps, caller, body, headers['idempotency-key']);
      if (replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(201).send(result);
    },
  );

  app.get(
    '/webhooks',
    {
      config: SCOPE,
      schema: {
        operationId: 'listWebhooks',
        summary: 'List webhooks by name',
        querystring: WebhookQuery,
        response: { 200: Page(Webhook) },
      },
    },
    async ({ caller, query }) => await listWebhooks(deps, caller, query),
  );
}

function itemRoutes(app: App, deps: WebhookDeps, ofWebhook: OfWebhook): void {
  app.get(
    '/webhooks/:webhook_id',
    {
      config: { ...SCOPE, ...VERSIONED, ...ofWebhook },
      schema: {
        operationId: 'getWebhook',
        summary: 'Retrieve a webhook',
        params: WebhookParams,
        response: { 200: Webhook },
      },
    },
    async ({ caller, params }) => await readWebhook(deps, caller, params.webhook_id),
  );

  app.patch(
    '/webhooks/:webhook_id',
    {
      config: { ...CHANGES, ...VERSIONED, ...ofWebhook },
      schema: {
        operationId: 'updateWebhook',
        summary: 'Update a webhook',
        params: WebhookParams,
        body: WebhookChanges,
        response: { 200: Webhook },
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await changeWebhook(deps, caller, params.webhook_id, body, assertMatch),
  );

  app.delete(
    '/webhooks/:webhook_id',
    {
      config: { ...CHANGES, ...VERSIONED, ...ofWebhook },
      schema: {
        operationId: 'deleteWebhook',
        summary: 'Delete a webhook, with its log and what is pending',
        params: WebhookParams,
        response: { 200: Webhook },
      },
    },
    async ({ caller, params, assertMatch }) =>
      await deleteWebhook(deps, caller, params.webhook_id, assertMatch),
  );
}

function secretRoute(app: App, deps: WebhookDeps, ofWebhook: OfWebhook): void {
  app.post(
    '/webhooks/:webhook_id/rotate',
    {
      config: {
        ...SCOPE,
        ...VERSIONED,
        dependsOn: VERSIONED.versioned,
        ...ofWebhook,
        bodyIsOptional: true,
      },
      schema: {
        operationId: 'rotateWebhook',
        summary: 'Replace the secret of a webhook. The new one is shown once',
        params: WebhookParams,
        body: WebhookRotation,
        response: { 200: WebhookWithSecret },
      },
      preValidation: async (request) => {
        if (request.body === undefined) request.body = {};
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await rotateWebhook(deps, caller, params.webhook_id, body.grace_seconds ?? 0, assertMatch),
  );
}

function deliveryRoutes(app: App, deps: WebhookDeps, ofWebhook: OfWebhook): void {
  app.post(
    '/webhooks/:webhook_id/test',
    {
      config: { ...SCOPE, ...ofWebhook },
      schema: {
        operationId: 'testWebhook',
        summary: 'Send a test message now, and say how it went',
        params: WebhookParams,
        response: { 200: WebhookTest },
      },
    },
    async ({ params }) => await testWebhook(deps, params.webhook_id),
  );

  app.get(
    '/webhooks/:webhook_id/deliveries',
    {
      config: { ...SCOPE, ...ofWebhook },
      schema: {
        operationId: 'listWebhookDeliveries',
        summary: 'List what a webhook was sent in the last 40 days, newest first',
        params: WebhookParams,
        querystring: DeliveryQuery,
        response: { 200: Page(WebhookDelivery) },
      },
    },
    async ({ params, query }) => await listDeliveries(deps, params.webhook_id, query),
  );

  app.post(
    '/webhooks/:webhook_id/deliveries/:delivery_id/redeliver',
    {
      config: {
        ...SCOPE,
        assertExists: async ({ params }: FastifyRequest) => {
          const { webhook_id, delivery_id } = params as { webhook_id: string; delivery_id: string };
          return await existingDelivery(deps, webhook_id, delivery_id);
        },
      },
      schema: {
        operationId: 'redeliverWebhook',
        summary: 'Send a message again, with the same webhook-id',
        params: DeliveryParams,
        response: { 200: WebhookDelivery },
      },
    },
    async ({ params }) => await redeliver(deps, params.webhook_id, params.delivery_id),
  );
}
