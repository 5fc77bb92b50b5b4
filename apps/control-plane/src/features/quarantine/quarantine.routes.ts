import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import {
  NewDiscard,
  QuarantinedUsage,
  QuarantinedUsageWithPayload,
  QuarantineListQuery,
} from './quarantine.schemas.ts';
import {
  discard,
  existingQuarantined,
  listQuarantine,
  type QuarantineDeps,
  readQuarantined,
  release,
} from './quarantine.service.ts';

const Params = Type.Object({ quarantine_id: Type.String() });

export function quarantineRoutes(app: App, deps: QuarantineDeps): void {
  const config = {
    scope: 'operator',
    assertExists: async (request: FastifyRequest) =>
      await existingQuarantined(deps.db, (request.params as Static<typeof Params>).quarantine_id),
  } as const;

  app.get(
    '/quarantine',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listQuarantine',
        summary: 'List usage that the ledger refused, oldest first',
        querystring: QuarantineListQuery,
        response: { 200: Page(QuarantinedUsage) },
      },
    },
    async (request) => await listQuarantine(deps, request.query),
  );

  app.get(
    '/quarantine/:quarantine_id',
    {
      config,
      schema: {
        operationId: 'getQuarantined',
        summary: 'Retrieve usage that the ledger refused, with its message',
        params: Params,
        response: { 200: QuarantinedUsageWithPayload },
      },
    },
    async (request) => await readQuarantined(deps, request.params.quarantine_id),
  );

  app.post(
    '/quarantine/:quarantine_id/release',
    {
      config,
      schema: {
        operationId: 'releaseQuarantined',
        summary: 'Record quarantined usage in the ledger',
        description:
          'Decodes the message again with this release and records its usage, once, even if the message arrived several times. 422 `still_refused` gives the reason if the ledger still refuses it.',
        params: Params,
        response: { 200: QuarantinedUsage, 422: Type.Unknown() },
      },
    },
    async (request) => await release(deps, request.caller, request.params.quarantine_id),
  );

  app.post(
    '/quarantine/:quarantine_id/discard',
    {
      config,
      schema: {
        operationId: 'discardQuarantined',
        summary: 'Discard quarantined usage: it is never recorded',
        description: 'This is final. The message and the note stay stored.',
        params: Params,
        body: NewDiscard,
        response: { 200: QuarantinedUsage },
      },
    },
    async (request) => await discard(deps, request.caller, request.params.quarantine_id, request.body.note),
  );
}
