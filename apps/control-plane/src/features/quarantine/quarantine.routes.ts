import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import {
  discard,
  existingQuarantined,
  listQuarantine,
  QUARANTINE_STATES,
  type QuarantineDeps,
  readQuarantined,
  release,
} from './quarantine.service.ts';

const FIELDS = {
  id: Type.String({ examples: ['7'] }),
  kind: OneOf(['event', 'batch'], { description: 'A batch could not be read as far as its events.' }),
  state: OneOf(QUARANTINE_STATES),
  reason: Type.String({ description: 'Why the ledger did not take it.', examples: ['usage is missing'] }),
  received_at: DateTime,
  producer_id: Nullable(Type.String({ description: 'The spool that it comes from.' })),
  epoch: Nullable(Type.String({ description: 'The id of the proxy that sent it.' })),
  shard: Nullable(Type.Integer()),
  n: Nullable(Type.Integer({ description: "Its number among the proxy's events of the shard." })),
  principal_id: Nullable(
    Type.String({
      description: "Whose spend it is; null where that can't be read: then it may be anybody's.",
    }),
  ),
  resolved_at: Nullable(DateTime),
  resolved_by: Nullable(Type.String()),
  note: Nullable(Type.String()),
};
const Quarantined = Type.Object(FIELDS, { title: 'QuarantinedUsage' });
const Whole = Type.Object({
  ...FIELDS,
  payload_base64: Type.String({ description: 'The message, as it came.', examples: ['CgNhYmM='] }),
});

const Params = Type.Object({ quarantine_id: Type.String() });

export function quarantineRoutes(app: App, deps: QuarantineDeps): void {
  app.get(
    '/quarantine',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listQuarantine',
        summary: 'Usage that the ledger could not take, the oldest first',
        querystring: Strict({ ...PageQuery, state: Type.Optional(OneOf(QUARANTINE_STATES)) }),
        response: { 200: Page(Quarantined) },
      },
    },
    async (request) => await listQuarantine(deps, request.query),
  );

  app.get(
    '/quarantine/:quarantine_id',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'getQuarantined',
        summary: 'Usage that the ledger could not take, with the message itself',
        params: Params,
        response: { 200: Whole },
      },
    },
    async (request) => await readQuarantined(deps, request.params.quarantine_id),
  );

  app.post(
    '/quarantine/:quarantine_id/release',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'releaseQuarantined',
        summary: 'Record quarantined usage after all',
        description:
          'Reads it again, as this release does, and records what it says; once, however often it came. 422 `still_refused` says why it still can not be taken.',
        params: Params,
        response: { 200: Quarantined, 422: Type.Unknown() },
      },
    },
    async (request) => await release(deps, request.caller, request.params.quarantine_id),
  );

  app.post(
    '/quarantine/:quarantine_id/discard',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'discardQuarantined',
        summary: 'Say that quarantined usage is not to be recorded',
        description: 'For good. The message stays, with the note that says why.',
        params: Params,
        body: Strict({
          note: Type.String({ minLength: 1, maxLength: 1_000, examples: ['sent by a load test'] }),
        }),
        response: { 200: Quarantined },
      },
      preParsing: async (request) => {
        await existingQuarantined(deps.db, (request.params as Static<typeof Params>).quarantine_id);
      },
    },
    async (request) => await discard(deps, request.caller, request.params.quarantine_id, request.body.note),
  );
}
