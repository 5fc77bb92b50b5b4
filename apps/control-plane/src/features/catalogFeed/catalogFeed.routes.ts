import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { CatalogFeed, FeedChange, FeedChangesQuery } from './catalogFeed.schemas.ts';
import { type CatalogFeedDeps, readFeedState, refreshFeed } from './catalogFeed.service.ts';
import {
  approveChange,
  existingChange,
  listFeedChanges,
  rejectChange,
  toFeedChange,
} from './feedChanges.service.ts';

const ChangeParams = Type.Object({ change_id: Type.String() });
const config = { scope: 'operator' } as const;
const changing = { ...config, propagates: true } as const;

export function catalogFeedRoutes(app: App, deps: CatalogFeedDeps): void {
  app.get(
    '/catalog/feed',
    {
      config,
      schema: {
        operationId: 'getCatalogFeed',
        summary: 'Show the feed of prices: how its last fetch went, and what it meant for the catalog',
        response: { 200: CatalogFeed },
      },
    },
    async () => await readFeedState(deps),
  );

  app.post(
    '/catalog/feed/refresh',
    {
      config: changing,
      schema: {
        operationId: 'refreshCatalogFeed',
        summary: 'Fetch the feed of prices now, and apply it. If that fails, the state says why',
        response: { 200: CatalogFeed },
      },
    },
    async () => await refreshFeed(deps),
  );

  changeRoutes(app, deps);
}

function changeRoutes(app: App, deps: CatalogFeedDeps): void {
  const assertExists = async (request: FastifyRequest): Promise<void> => {
    await existingChange(deps, (request.params as Static<typeof ChangeParams>).change_id);
  };

  app.get(
    '/catalog/feed/changes',
    {
      config,
      schema: {
        operationId: 'listFeedChanges',
        summary: 'List the prices that the feed changed or wants to change, newest first',
        querystring: FeedChangesQuery,
        response: { 200: Page(FeedChange) },
      },
    },
    async (request) => await listFeedChanges(deps, request.query),
  );

  app.get(
    '/catalog/feed/changes/:change_id',
    {
      config: { ...config, assertExists },
      schema: {
        operationId: 'getFeedChange',
        summary: 'Retrieve a change of the feed, with the prices before and after',
        params: ChangeParams,
        response: { 200: FeedChange },
      },
    },
    async (request) => toFeedChange(await existingChange(deps, request.params.change_id)),
  );

  app.post(
    '/catalog/feed/changes/:change_id/approve',
    {
      config: { ...changing, assertExists },
      schema: {
        operationId: 'approveFeedChange',
        summary: 'Set the price of a held change, for requests admitted from now on',
        params: ChangeParams,
        response: { 200: FeedChange },
      },
    },
    async (request) => await approveChange(deps, request.caller, request.params.change_id),
  );

  app.post(
    '/catalog/feed/changes/:change_id/reject',
    {
      config: { ...config, assertExists },
      schema: {
        operationId: 'rejectFeedChange',
        summary: 'Keep the price in force. The same change is not held again',
        params: ChangeParams,
        response: { 200: FeedChange },
      },
    },
    async (request) => await rejectChange(deps, request.caller, request.params.change_id),
  );
}
